"""Gradient penalty: create_graph through the region, then a second backward into the parameters.

Source: https://github.com/pytorch/pytorch/issues/33999 , .../issues/24005
Class: higher-order differentiation.
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["gx", "penalty", "g_w1", "g_w2", "g_x2"]}


def run(checkpoint):
    torch.manual_seed(15)
    a = nn.Sequential(nn.Linear(3, 6), nn.Softplus())
    b = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))
    x = torch.randn(5, 3, requires_grad=True)
    y = checkpoint(b, checkpoint(a, x))
    (gx,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    pen = ((gx.norm(dim=1) - 1) ** 2).mean()
    (pen + y.mean()).backward()
    return {
        "gx": gx.detach(),
        "penalty": pen.detach(),
        "g_w1": a[0].weight.grad,
        "g_w2": b[0].weight.grad,
        "g_x2": x.grad,
    }
