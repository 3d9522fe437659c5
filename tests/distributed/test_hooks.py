"""Weights that hooks gather before use and free after, as ZeRO-3 does, without a library."""

import pytest
import torch
import torch.distributed as dist
from bitwise import assert_same, plain
from torch import nn

import remat

WIDTH = 136  # more than what a region copies


class Sharded:
    """Keeps a shard of a module's weight; hooks have the whole only while the module runs."""

    def __init__(self, module, how):
        self.weight = module.weight
        self.shard = self.weight.detach().chunk(2)[dist.get_rank()].clone()
        self.free, self.fill = getattr(self, f"free_{how}"), getattr(self, f"fill_{how}")
        self.gathered = 0
        module.register_forward_pre_hook(lambda *_: self.fill())
        module.register_forward_hook(lambda *_: self.free())
        module.register_full_backward_pre_hook(lambda *_: self.fill())
        module.register_full_backward_hook(lambda *_: self.free())
        self.free()

    def whole(self):
        self.gathered += 1
        shards = [torch.empty_like(self.shard) for _ in range(2)]
        dist.all_gather(shards, self.shard)
        return torch.cat(shards)

    def free_data(self):
        self.weight.data = torch.empty(0)

    def fill_data(self):
        if self.weight.numel() == 0:
            whole = torch.empty(WIDTH * WIDTH + 3)[3:].view(WIDTH, WIDTH)  # as in a bucket
            self.weight.data = whole.copy_(self.whole())

    def free_storage(self):
        self.weight.untyped_storage().resize_(0)

    def fill_storage(self):
        storage = self.weight.untyped_storage()
        if storage.nbytes() == 0:
            with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(self.weight):
                storage.resize_(WIDTH * WIDTH * 4)
                self.weight.copy_(self.whole())


def train(checkpoint, how, twice=False, frozen=False):
    """One step of three sharded layers in one region, each used once or twice."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH) for _ in range(3)]
    for layer in layers:
        layer.weight.requires_grad_(not frozen)
    sharded = [Sharded(layer, how) for layer in layers]

    def region(x):
        for layer in layers * (2 if twice else 1):
            x = torch.tanh(layer(x))
        return x

    x = torch.randn(2, WIDTH, requires_grad=True)
    y = checkpoint(region, x)
    between = [s.weight.untyped_storage().nbytes() for s in sharded]
    y.square().sum().backward()
    after = [s.weight.untyped_storage().nbytes() for s in sharded]
    grads = [p.grad for layer in layers for p in layer.parameters() if p.grad is not None]
    return y.detach(), x.grad, grads, between, after


def compare(options):
    expected = train(plain, **options)
    remat.reset_stats()
    assert_same(train(remat.checkpoint, **options), expected)
    assert remat.stats()["ops_replayed"] > 0


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("how", ["data", "storage"])
def test_hooks_are_called_again(ranks, how, twice):
    ranks.run(compare, {"how": how, "twice": twice})


@pytest.mark.parametrize("how", ["data", "storage"])
def test_frozen_weights(ranks, how):
    ranks.run(compare, {"how": how, "frozen": True})
