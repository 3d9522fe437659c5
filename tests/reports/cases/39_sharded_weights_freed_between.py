"""Weights whose storage exists only around use (FSDP / ZeRO-3 style): filled by hooks before a
forward and before a backward, freed after each. A stand-in on one process.

A system that replays ops must notice that a captured parameter has no storage at replay time
(its module has not reached its own backward yet) and get it filled, raise clearly, or have kept
what it needs; never read freed memory.

Source: https://github.com/deepspeedai/DeepSpeed/pull/8148 ,
    https://github.com/huggingface/transformers/issues/34928 ,
    https://github.com/Lightning-AI/pytorch-lightning/issues/19267 ,
    https://github.com/pytorch/pytorch/issues/82203 , .../issues/187437 ,
    https://github.com/Joluck/RWKV-PEFT/issues/58 (recomputed size [0])
Class: sharded parameters.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["out", "g0", "g1", "g2", "g_x", "sizes_mid", "sizes_end"],
    "value": {
        "sizes_mid": ([0, 0, 0], "freed after the forward"),
        "sizes_end": ([0, 0, 0], "freed after the backward"),
    },
}


def shard(m):
    w = m.weight
    full, n = w.detach().clone(), w.untyped_storage().nbytes()
    guard = torch.autograd._unsafe_preserve_version_counter

    def fill(*_):
        if w.untyped_storage().nbytes() == 0:
            with torch.no_grad(), guard(w):
                w.untyped_storage().resize_(n)
                w.copy_(full)

    def free(*_):
        w.untyped_storage().resize_(0)

    m.register_forward_pre_hook(fill)
    m.register_forward_hook(lambda *_: None if torch._C._current_graph_task_id() != -1 else free())
    m.register_full_backward_pre_hook(fill)
    m.register_full_backward_hook(free)
    free()


def run(checkpoint):
    torch.manual_seed(39)
    lins = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
    for m in lins:
        shard(m)

    def region(t):
        return torch.tanh(lins[1](torch.tanh(lins[0](t))))

    x = torch.randn(3, 4, requires_grad=True)
    y = checkpoint(lambda t: lins[2](t).sigmoid(), checkpoint(region, x))

    def size():
        return [m.weight.untyped_storage().nbytes() for m in lins]

    mid = size()
    y.square().sum().backward()
    return {
        "out": y.detach(),
        "g0": lins[0].weight.grad,
        "g1": lins[1].weight.grad,
        "g2": lins[2].weight.grad,
        "g_x": x.grad,
        "sizes_mid": mid,
        "sizes_end": size(),
    }
