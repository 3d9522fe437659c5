"""Noise drawn from an explicit torch.Generator owned by the module.

Source: class of https://github.com/openai/guided-diffusion/issues/167 ,
    https://github.com/allenai/OLMo-core/pull/828 , https://github.com/pytorch/pytorch/pull/194478
    (a generator that the checkpoint does not know how to rewind)
Class: randomness outside torch's default generators.
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["out", "g_w", "g_x", "next_draw"]}


class Noisy(nn.Module):
    def __init__(self, g):
        super().__init__()
        self.g = g
        self.lin = nn.Linear(5, 5)

    def forward(self, x):
        h = self.lin(x)
        keep = (torch.rand(h.shape, generator=self.g) < 0.6).to(h.dtype)
        noise = torch.empty_like(h).normal_(0, 0.3, generator=self.g)
        return torch.tanh(h * keep / 0.6) * (1 + noise)


def run(checkpoint):
    torch.manual_seed(6)
    g = torch.Generator().manual_seed(99)
    net = nn.ModuleList([Noisy(g), Noisy(g)])
    x = torch.randn(4, 5, requires_grad=True)
    h = x
    for m in net:
        h = checkpoint(m, h)
    h.square().sum().backward()
    return {
        "out": h.detach(),
        "g_w": net[0].lin.weight.grad,
        "g_x": x.grad,
        "next_draw": torch.rand(3, generator=g),
    }
