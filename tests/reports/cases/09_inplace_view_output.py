"""The region returns a view of an intermediate that was then changed in place.

Source: https://github.com/pytorch/pytorch/issues/36383 , .../issues/26546 , .../issues/21970
Class: in-place / aliasing (region output).
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["a", "b", "c", "g_p", "g_w", "g_x"]}


def run(checkpoint):
    torch.manual_seed(9)
    p = torch.randn(4, requires_grad=True)
    w = torch.randn(3, 4, requires_grad=True)
    x = torch.randn(3, 4, requires_grad=True)
    norm = nn.Sequential(nn.InstanceNorm1d(3), nn.ReLU(inplace=True))

    def view_relu(t):
        return (t + p)[:, :3].relu_()

    def ein(t, u):
        return torch.einsum("ab,ab->a", t, u)

    a = checkpoint(view_relu, x)
    b = checkpoint(ein, x, w)
    c = checkpoint(norm, x.unsqueeze(0))
    b.mul_(2.0)  # the caller changes a returned tensor nobody saved
    (a.sum() + b.square().sum() + c.norm()).backward()
    return {
        "a": a.detach(),
        "b": b.detach(),
        "c": c.detach(),
        "g_p": p.grad,
        "g_w": w.grad,
        "g_x": x.grad,
    }
