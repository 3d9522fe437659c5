"""Parameters used only inside the region must train although no argument requires grad.

Source: https://github.com/pytorch/pytorch/issues/7617 , .../issues/6884 ,
    discuss.pytorch.org/t/116271
Class: gradient connectivity.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["out", "out_requires_grad", "g_w", "g_b", "g_w2"],
    "value": {
        "out_requires_grad": (
            True,
            "a parameter inside the region requires grad, so the output must too",
        )
    },
}


def run(checkpoint):
    torch.manual_seed(1)
    first = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    head = nn.Linear(3, 1)
    x = torch.randn(5, 4)  # a data batch: no grad
    h = checkpoint(first, x)
    rg = h.requires_grad
    y = head(h)
    y.square().sum().backward()
    return {
        "out": y.detach(),
        "out_requires_grad": rg,
        "g_w": first[0].weight.grad,
        "g_b": first[2].bias.grad,
        "g_w2": head.weight.grad,
    }
