"""A kernel picks another path when grad mode is off (or when its input does not require grad).

Source: https://github.com/unslothai/unsloth-zoo/pull/1001 ,
    https://github.com/Dao-AILab/flash-attention/pull/1397
Class: ambient mode differs between forward and recompute.
"""

import torch

EXPECT = {"equal_plain": ["out", "g_x", "g_w", "seen_grad_mode", "seen_leaf"]}


def run(checkpoint):
    torch.manual_seed(25)
    w = torch.randn(4, requires_grad=True)
    x = torch.randn(3, 4, requires_grad=True)
    seen, leaf = [], []

    def f(t):
        seen.append(torch.is_grad_enabled())
        leaf.append(t.is_leaf)
        if torch.is_grad_enabled():
            return torch.tanh(t * w)
        return (t * w).clamp(-1, 1)  # "inference kernel": not the same numbers

    y = checkpoint(f, x * 2)
    first = list(seen), list(leaf)
    y.sum().backward()
    return {
        "out": y.detach(),
        "g_x": x.grad,
        "g_w": w.grad,
        "seen_grad_mode": first[0],
        "seen_leaf": first[1],
    }
