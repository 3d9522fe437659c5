"""Autocast's weight-cast cache: a weight is shared by two regions and was first cast under no_grad.

Source: https://github.com/pytorch/pytorch/issues/141896 , .../issues/193338 , .../issues/37730
Class: hidden global cache / ambient mode differs between forward and recompute.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["out", "out_dtype", "g_w", "g_b", "g_x"],
    "value": {"out_dtype": ("torch.bfloat16", "the region ran under bfloat16 autocast")},
}


def run(checkpoint):
    torch.manual_seed(8)
    lin = nn.Linear(8, 8)
    x = torch.randn(4, 8, requires_grad=True)

    def f(h):
        return torch.nn.functional.gelu(lin(h))

    def g(h):
        with torch.no_grad():
            gate = torch.sigmoid(lin(h))  # casts the weight while grad is off
        return lin(h) * gate

    with torch.amp.autocast("cpu", dtype=torch.bfloat16):
        h = checkpoint(f, x)
        h = checkpoint(f, h)  # warm cache: the cast is skipped here
        h = checkpoint(g, h)
    dt = str(h.dtype)
    h.float().square().sum().backward()  # backward outside autocast, cold cache
    return {
        "out": h.detach(),
        "out_dtype": dt,
        "g_w": lin.weight.grad,
        "g_b": lin.bias.grad,
        "g_x": x.grad,
    }
