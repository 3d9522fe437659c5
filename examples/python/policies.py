"""What a policy keeps is not computed again: memory against time, operator by operator."""

import torch
from torch import nn

import remat

POLICIES = [
    "nothing_saveable",  # the default
    remat.policies.dots_saveable,  # the dear ones
    "keep_ops(gelu)",
    lambda facts: facts.op == "aten::gelu",
    "everything_saveable",
]


def step(policy):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)) for _ in range(8)]
    x = torch.randn(1024, 64)
    remat.reset_stats()
    before = remat.memory.live_bytes()
    h = x
    for layer in layers:
        h = remat.checkpoint(layer, h, policy=policy)
    kept = remat.memory.live_bytes() - before
    h.square().mean().backward()
    return layers[0][0].weight.grad, kept, remat.stats()["ops_replayed"]


remat.memory.install()
expected, most, none = step("everything_saveable")
print(f"{'policy':26}  held after forward  operators replayed")
for policy in POLICIES:
    gradient, kept, replayed = step(policy)
    assert torch.equal(gradient, expected)
    name = "a function" if callable(policy) else str(policy)
    print(f"{name:26}  {kept / 2**20:14.2f} MiB  {replayed:18}")
    assert kept <= most
    assert none <= replayed
