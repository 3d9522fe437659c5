"""A custom Function that reads ctx.saved_tensors more than once in backward.

Source: https://github.com/state-spaces/mamba/pull/1021 ,
    https://github.com/stanford-futuredata/stk/pull/7 ,
    https://github.com/pytorch/pytorch/issues/82156 , .../issues/82482
Class: custom autograd Function.
"""

import torch

EXPECT = {"equal_plain": ["out", "g_x", "g_w", "kept"]}


class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        y = a * b
        ctx.save_for_backward(a, b, y)
        ctx.kept = b.detach()  # a plain attribute, as quantised kernels do
        return y.tanh()

    @staticmethod
    def backward(ctx, g):
        if len(ctx.saved_tensors) == 0:  # first read
            return None, None
        a = ctx.saved_tensors[0]  # second
        b, y = ctx.saved_tensors[1:]  # third
        d = g * (1 - y.tanh() ** 2)
        Mul.seen = float((ctx.kept - b).abs().max())
        return d * b, d * a


def run(checkpoint):
    torch.manual_seed(18)
    x = torch.randn(3, 4, requires_grad=True)
    w = torch.randn(3, 4, requires_grad=True)
    y = checkpoint(lambda t: Mul.apply(torch.sin(t), w.exp()), x)
    y.square().sum().backward()
    return {"out": y.detach(), "g_x": x.grad, "g_w": w.grad, "kept": Mul.seen}
