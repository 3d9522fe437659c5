"""Mixture of experts whose router bias is updated by the forward, so a second routing sends other
token counts.

Source: https://github.com/pytorch/torchtitan/issues/1117 ,
    https://github.com/NVIDIA-NeMo/Automodel/pull/3140 , .../pull/2635 , .../issues/3325 ,
    https://github.com/pytorch/torchtitan/pull/1114
Class: data-dependent control flow / shapes differ on recompute.
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["out", "counts", "bias", "g_router", "g_e0", "g_e2", "g_x"]}


class MoE(nn.Module):
    def __init__(self, d=4, n=3):
        super().__init__()
        self.router = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList([nn.Linear(d, d) for _ in range(n)])
        self.register_buffer("bias", torch.zeros(n))
        self.register_buffer("counts", torch.zeros(n))

    def forward(self, x):
        p = self.router(x).softmax(-1)
        top = (p + self.bias).topk(2, -1).indices
        out = torch.zeros_like(x)
        load = torch.zeros_like(self.counts)
        for e, f in enumerate(self.experts):
            rows = (top == e).any(-1).nonzero().squeeze(-1)
            load[e] = rows.numel()
            if rows.numel():
                out = out.index_add(0, rows, torch.relu(f(x[rows])) * p[rows, e : e + 1])
        with torch.no_grad():
            self.counts += load
            self.bias += 0.9 * torch.sign(load.mean() - load)
        return out


def run(checkpoint):
    torch.manual_seed(22)
    m = MoE()
    x = torch.randn(12, 4, requires_grad=True)
    y = checkpoint(m, x)
    y.square().sum().backward()

    def g(p):
        return p.grad if p.grad is not None else torch.zeros_like(p)

    return {
        "out": y.detach(),
        "counts": m.counts.clone(),
        "bias": m.bias.clone(),
        "g_router": g(m.router.weight),
        "g_e0": g(m.experts[0].weight),
        "g_e2": g(m.experts[2].weight),
        "g_x": x.grad,
    }
