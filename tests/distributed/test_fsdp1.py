"""FSDP1 (FullyShardedDataParallel): a parameter shows its shard except while its module runs."""

import pytest
import torch
from bitwise import assert_same, plain
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

import remat

WIDTH = 16


def train(run, **options):
    torch.manual_seed(0)
    blocks = nn.Sequential(
        *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.LayerNorm(WIDTH)) for _ in range(3))
    )
    for i, block in enumerate(blocks):
        blocks[i] = FullyShardedDataParallel(block, device_id=torch.device("cpu"), **options)
    model = FullyShardedDataParallel(blocks, device_id=torch.device("cpu"), **options)
    losses, grads = [], []
    for step in range(2):
        model.zero_grad()
        x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))
        loss = run(model, x.requires_grad_()).square().sum()
        loss.backward()
        losses.append(loss.detach())
        grads += [x.grad] + [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return losses, grads


def around_the_model(checkpoint):
    return lambda model, x: checkpoint(model, x)


def inside_the_model(checkpoint):
    """A region over the sharded blocks, in the forward of the model that contains them."""

    def run(model, x):
        inner = model.module
        forward = type(inner).forward
        inner.forward = lambda x: checkpoint(forward, inner, x)
        return model(x)

    return run


def compare(where, options):
    expected = train(where(plain), **options)
    remat.reset_stats()
    assert_same(train(where(remat.checkpoint), **options), expected)
    assert remat.stats()["ops_replayed"] > 0


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize("where", [around_the_model, inside_the_model])
def test_sharded_model(ranks, where, original):
    ranks.run(compare, where, {"use_orig_params": original})
