"""Delayed scaling: the scale comes from a history buffer which each forward rolls and extends.

Source: https://github.com/NVIDIA/TransformerEngine/pull/1254 , .../pull/1723 , .../pull/3394 ,
    https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1927
Class: persistent state that the region both reads and writes (silent: the recompute uses another
scale).
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["out", "hist", "steps", "g_w", "g_x"],
    "value": {"steps": (2, "two forwards")},
}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4, bias=False)
        self.register_buffer("hist", torch.ones(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        s = 8.0 / self.hist.max()
        q = (torch.round(x.detach() * s) / s - x.detach()) + x  # straight-through
        with torch.no_grad():
            self.hist.copy_(torch.roll(self.hist, 1, 0))
            self.hist[0] = x.abs().max() * 1.5
            self.steps += 1
        return torch.tanh(self.lin(q)) * q


def run(checkpoint):
    torch.manual_seed(21)
    m = Scaled()
    for _ in range(2):
        x = torch.randn(5, 4, requires_grad=True)
        y = checkpoint(m, x)
        m.zero_grad()
        y.square().sum().backward()
    return {
        "out": y.detach(),
        "hist": m.hist.clone(),
        "steps": int(m.steps),
        "g_w": m.lin.weight.grad,
        "g_x": x.grad,
    }
