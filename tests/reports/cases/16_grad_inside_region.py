"""torch.autograd.grad called inside the region (an energy model that returns its force).

Source: https://github.com/pytorch/pytorch/issues/102223
Class: higher-order differentiation (backward inside forward).
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["force", "g_w", "g_v", "g_x"]}


def run(checkpoint):
    torch.manual_seed(16)
    net = nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1))
    x = torch.randn(4, 3, requires_grad=True)

    def force(pos):
        e = net(pos).exp().sum()
        (f,) = torch.autograd.grad(e, pos, create_graph=True)
        return -f * torch.sigmoid(e / 50)

    f = checkpoint(force, x)
    f.square().sum().backward()
    return {
        "force": f.detach(),
        "g_w": net[0].weight.grad,
        "g_v": net[2].weight.grad,
        "g_x": x.grad,
    }
