"""RReLU: the op's saved noise buffer is filled by the kernel after autograd captured it.

Source: https://github.com/pytorch/pytorch/issues/193671 (silent wrong gradient)
Class: op that saves a tensor which the same op writes (early stop / order of capture).
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["out_last", "out_mid", "g_last", "g_mid", "g_w"]}


def run(checkpoint):
    torch.manual_seed(19)
    act = nn.RReLU(0.1, 0.9).train()
    lin = nn.Linear(6, 6)
    x = torch.randn(8, 6, requires_grad=True)
    torch.manual_seed(190)
    y = checkpoint(lambda t: act(t), x)  # the random op is the last one that saves
    junk = [torch.full((8, 6), 1e30) for _ in range(64)]
    del junk  # so that uninitialised memory cannot hold the right noise by luck
    y.sum().backward()
    z_in = torch.randn(8, 6, requires_grad=True)
    z = checkpoint(lambda t: lin(act(lin(t))), z_in)
    z.square().sum().backward()
    return {
        "out_last": y.detach(),
        "out_mid": z.detach(),
        "g_last": x.grad,
        "g_mid": z_in.grad,
        "g_w": lin.weight.grad,
    }
