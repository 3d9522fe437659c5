"""Hooks on a parameter shared by several regions fire once per backward; module hooks fire once per
call.

Source: https://github.com/pytorch/pytorch/issues/81296 , .../issues/143573 , .../issues/24005 ,
    https://github.com/huggingface/accelerate/issues/389 (DDP "ready twice" is the same fault)
Class: hooks.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["post_acc", "tensor_hook", "pre_fwd", "fwd", "full_bwd", "inner_hook", "g_w"],
    "value": {
        "post_acc": (1, "one accumulation per parameter per backward, however often it is used"),
        "tensor_hook": (1, "same"),
        "fwd": (2, "the module is called twice"),
        "pre_fwd": (2, "same"),
        "full_bwd": (2, "one backward per call"),
        "inner_hook": (2, "one gradient per intermediate"),
    },
}


def run(checkpoint):
    torch.manual_seed(20)
    lin = nn.Linear(4, 4)
    n = dict(post_acc=0, tensor_hook=0, pre_fwd=0, fwd=0, full_bwd=0, inner_hook=0)

    def bump(k):
        def h(*_):
            n[k] += 1

        return h

    lin.weight.register_post_accumulate_grad_hook(bump("post_acc"))
    lin.weight.register_hook(bump("tensor_hook"))
    lin.register_forward_pre_hook(bump("pre_fwd"))
    lin.register_forward_hook(bump("fwd"))
    lin.register_full_backward_hook(bump("full_bwd"))

    def f(h):
        t = torch.tanh(lin(h))
        t.register_hook(bump("inner_hook"))
        return t * t

    x = torch.randn(3, 4, requires_grad=True)
    checkpoint(f, checkpoint(f, x)).sum().backward()
    return {**n, "g_w": lin.weight.grad}
