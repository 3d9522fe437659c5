"""A router logs its load-balance loss and token counts into global trackers.

Source: https://github.com/NVIDIA/Megatron-LM/issues/1330 , .../issues/1514 , .../issues/1478 ;
    torchtitan PR 4772
Class: Python-side state / logging counted twice.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["out", "tracked_sum", "n_tracked", "tokens", "calls", "g_router", "g_x"],
    "value": {
        "calls": (2, "two layers, each body runs once"),
        "n_tracked": (2, "one log entry per layer"),
    },
}


def run(checkpoint):
    torch.manual_seed(4)
    routers = nn.ModuleList([nn.Linear(4, 3) for _ in range(2)])
    tokens = torch.zeros(3)  # in-place tensor counter
    log, calls = [], [0]

    def layer(router, h):
        calls[0] += 1
        p = router(h).softmax(-1)
        tokens.add_(torch.bincount(p.argmax(-1).flatten(), minlength=3).float())
        log.append(float((p.mean(0) ** 2).sum().detach()))
        return torch.cat([h[:, :1] * p, h[:, 1:2]], 1)

    x = torch.randn(6, 4, requires_grad=True)
    h = x
    for r in routers:
        h = checkpoint(layer, r, h)
    h.sin().sum().backward()
    return {
        "out": h.detach(),
        "tracked_sum": sum(log),
        "n_tracked": len(log),
        "tokens": tokens,
        "calls": calls[0],
        "g_router": routers[0].weight.grad,
        "g_x": x.grad,
    }
