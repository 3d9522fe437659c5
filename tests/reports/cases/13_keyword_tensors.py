"""Differentiable tensors passed by keyword keep their gradient; keyword-only and defaulted
arguments work.

Source: https://github.com/pytorch/pytorch/issues/79887 (PR 80987),
    https://github.com/NVIDIA/Megatron-LM/pull/4765 ,
    https://github.com/huggingface/transformers/issues/23366 (wrong order because only positionals
    were possible)
Class: calling convention.
"""

import torch
from torch import nn

EXPECT = {"equal_plain": ["out", "g_x", "g_enc", "g_bias", "g_w"]}


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, 4) * 0.5)

    def forward(self, x, *, encoder=None, bias=None, scale=1.0, return_attn=False):
        a = (x @ self.w @ encoder.transpose(-1, -2)) * scale
        if bias is not None:
            a = a + bias
        a = a.softmax(-1)
        o = torch.tanh(a @ encoder)
        return (o, a) if return_attn else o


def run(checkpoint):
    torch.manual_seed(13)
    m = Cross()
    x = torch.randn(2, 3, 4)
    enc = torch.randn(2, 5, 4, requires_grad=True)
    bias = torch.randn(3, 5, requires_grad=True)
    x.requires_grad_()
    o, a = checkpoint(m, x, encoder=enc, bias=bias, scale=0.7, return_attn=True)
    (o.square().sum() + a[..., 0].sum()).backward()
    return {
        "out": o.detach(),
        "g_x": x.grad,
        "g_enc": enc.grad,
        "g_bias": bias.grad,
        "g_w": m.w.grad,
    }
