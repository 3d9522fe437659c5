"""FSDP2 (fully_shard): the weights of a block exist only while it runs."""

import pytest
import torch
from bitwise import assert_same, plain
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import remat

WIDTH = 16


class Block(nn.Module):
    def __init__(self, inside=plain):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.inside = inside

    def forward(self, x):
        return x + self.inside(self.mlp, x)

    def mlp(self, x):
        return self.down(torch.tanh(self.up(self.norm(x))))


def train(run, inside=plain, freeze=(), **options):
    """Two steps of three sharded blocks, which `run` calls; gradients whole."""
    torch.manual_seed(0)
    blocks = nn.Sequential(*(Block(inside) for _ in range(3)))
    for name, parameter in blocks.named_parameters():
        parameter.requires_grad_(not any(part in name for part in freeze))
    for block in blocks:
        fully_shard(block, **options)
    fully_shard(blocks, **options)
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)
    losses = []
    for step in range(2):
        optimizer.zero_grad()
        x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))
        loss = run(blocks, x.requires_grad_()).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, [p.grad.full_tensor() for p in blocks.parameters() if p.grad is not None]


def every_block(checkpoint):
    def run(blocks, x):
        for block in blocks:
            x = checkpoint(block, x)
        return x

    return run


def all_blocks(checkpoint):
    return lambda blocks, x: checkpoint(blocks, x)


def no_block(checkpoint):
    return lambda blocks, x: blocks(x)


def compare(where, inside=False, **options):
    def step(checkpoint):
        return train(where(checkpoint), checkpoint if inside else plain, **options)

    expected = step(plain)
    remat.reset_stats()
    assert_same(step(remat.checkpoint), expected)
    assert remat.stats()["ops_replayed"] > 0


@pytest.mark.parametrize("where", [every_block, all_blocks])
def test_region_around_sharded_blocks(ranks, where):
    ranks.run(compare, where)


def test_region_inside_sharded_blocks(ranks):
    ranks.run(compare, no_block, True)


def test_frozen_weights_are_gathered_too(ranks):
    ranks.run(compare_frozen)


def compare_frozen():
    compare(all_blocks, freeze=("up", "norm"))


def test_weights_in_lower_precision(ranks):
    ranks.run(compare_mixed)


def compare_mixed():
    compare(all_blocks, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))


def test_region_in_segments_around_the_model(ranks):
    ranks.run(compare_segments)


def compare_segments():
    def run(blocks, x):
        with remat.region(segments=3):
            return blocks(x)

    assert_same(train(run), train(no_block(plain)))


def test_blocks_are_sharded_again_after_the_replay(ranks):
    ranks.run(check_sharded)


def has_whole_weights(block):
    (group,) = block._get_fsdp_state()._fsdp_param_groups
    return any(p._unsharded_param.untyped_storage().nbytes() > 0 for p in group.fsdp_params)


def check_sharded():
    whole = []

    def run(blocks, x):
        def watch(_module, _args, y):
            y.register_hook(lambda _: whole.append([has_whole_weights(block) for block in blocks]))

        # The gradient of what `down` makes of the last block comes after the region's first replay.
        handle = blocks[2].up.register_forward_hook(watch)
        y = remat.checkpoint(blocks, x)
        handle.remove()
        return y

    train(run)
    # FSDP itself has asked for the second block, whose backward comes next.
    assert whole == [[False, True, True]] * 2, whole
