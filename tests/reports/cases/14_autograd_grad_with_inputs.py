"""torch.autograd.grad and backward(inputs=...) through the region.

Source: https://github.com/pytorch/pytorch/issues/51743 ,
    https://github.com/haidog-yaqub/MeanFlow/issues/4 ,
    https://github.com/kakaobrain/rq-vae-transformer/issues/26
Class: autograd API coverage.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["gx", "gw", "only_w", "x_grad_is_none"],
    "value": {"x_grad_is_none": (True, "backward(inputs=[w]) must leave x.grad alone")},
}


def run(checkpoint):
    torch.manual_seed(14)
    net = nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.Linear(5, 2))
    x = torch.randn(3, 4, requires_grad=True)
    gx, gw = torch.autograd.grad(checkpoint(net, x).sin().sum(), [x, net[0].weight])
    checkpoint(net, x).cos().sum().backward(inputs=[net[2].weight])
    return {
        "gx": gx,
        "gw": gw,
        "only_w": net[2].weight.grad,
        "x_grad_is_none": x.grad is None and net[0].weight.grad is None,
    }
