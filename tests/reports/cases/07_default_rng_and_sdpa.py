"""Dropout and attention dropout from the default generator; the stream after backward must be where
plain leaves it.

Source: https://github.com/pytorch/pytorch/pull/14253 ,
    https://github.com/pytorch/pytorch/issues/121212 ,
    https://github.com/pytorch/pytorch/issues/187985
Class: randomness (default generator).
"""

import torch
import torch.nn.functional as F
from torch import nn

EXPECT = {"equal_plain": ["out", "g_w", "g_x", "between", "after"]}


def run(checkpoint):
    torch.manual_seed(7)
    lin = nn.ModuleList([nn.Linear(4, 12) for _ in range(2)])

    def block(parts, m):  # the tensor sits inside a list on purpose
        h = parts[0]
        q, k, v = m(h).chunk(3, -1)
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        return h + F.dropout(F.gelu(a), 0.4, True) * torch.rand_like(h)

    x = torch.randn(2, 5, 4, requires_grad=True)
    h = checkpoint(block, [x], lin[0])
    between = torch.rand(2)
    h = checkpoint(block, [h], lin[1])
    h.square().sum().backward()
    return {
        "out": h.detach(),
        "g_w": lin[0].weight.grad,
        "g_x": x.grad,
        "between": between,
        "after": torch.rand(2),
    }
