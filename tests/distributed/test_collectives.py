"""Collectives write what they are given: no schema says so, and no version counter moves."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from bitwise import assert_same_as_plain, leaf, step_of


def reduced_mask(x):
    """A buffer of the region's own, that a collective overwrites."""
    with torch.no_grad():
        mask = torch.ones(4, 4) * (2 + dist.get_rank())
        dist.all_reduce(mask)
    return x * mask


def gathered_parts(x):
    parts = [torch.zeros(4, 4) for _ in range(2)]
    dist.all_gather(parts, (x * 2).detach() + dist.get_rank())
    return x * parts[0] * parts[1]


class ReduceInPlace(torch.autograd.Function):
    """As Megatron does it: the argument is overwritten, returned, and not marked."""

    @staticmethod
    def forward(ctx, x):
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 1


def reduced_by_a_function(x):
    return ReduceInPlace.apply(x * 2).sin()


def reduced_functionally(x):
    total = functional.all_reduce((x * 2).detach(), "sum", dist.group.WORLD)
    return x * total.sin()


def compare(fn):
    assert_same_as_plain(step_of(fn))


@pytest.mark.parametrize(
    "fn", [reduced_mask, gathered_parts, reduced_by_a_function, reduced_functionally]
)
def test_collective_inside(ranks, fn):
    ranks.run(compare, fn)


def compare_after_reuse():
    """What the collective wrote is gone when backward wants it: no live value hides a fault."""

    def after(_):
        leaf(64, 64)  # takes the memory that was freed
        torch.full((4, 4), 77.0)

    assert_same_as_plain(step_of(reduced_mask, after=after))
    assert_same_as_plain(step_of(reduced_by_a_function, after=after))


def test_collective_whose_buffer_is_gone(ranks):
    ranks.run(compare_after_reuse)
