"""The region changes its own (non-leaf) argument in place before using it.

Source: https://github.com/hpcaitech/ColossalAI/pull/1460 ,
    https://github.com/hpcaitech/ColossalAI/pull/1451
Class: in-place / aliasing (region input).
"""

import torch

EXPECT = {"equal_plain": ["out", "seen_by_caller", "buf", "g_w", "g_x"]}


def run(checkpoint):
    torch.manual_seed(10)
    w = torch.randn(4, 4, requires_grad=True)
    buf = torch.zeros(3, 4)  # plain workspace, no grad

    def f(h, ws):
        h.mul_(0.5).add_(1.0)  # mutates the argument
        ws.add_(h.detach())  # and a side buffer that is read below
        return torch.tanh(h @ w) * ws.mean()

    x = torch.randn(3, 4, requires_grad=True)
    h = x * 3.0
    y = checkpoint(f, h, buf)
    seen = h.detach().clone()
    (y.square().sum() + h.sum()).backward()
    return {
        "out": y.detach(),
        "seen_by_caller": seen,
        "buf": buf.clone(),
        "g_w": w.grad,
        "g_x": x.grad,
    }
