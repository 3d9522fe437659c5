"""Runs a training step with and without remat and compares the two to the bit.

A `step` takes the checkpoint function to use and returns tensors, numbers, or lists of them.
"""

import pytest
import stand_in
import torch
from bits import bits
from implementations import call_plainly as plain

import remat

stand_in.install()


def leaf(*shape):
    """A tensor to differentiate by, the same one at every call."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape or (4, 4), generator=generator).requires_grad_()


def step_of(fn, after=None):
    """A step that checkpoints `fn` of one leaf, shows its result to `after`, and runs backward."""

    def step(checkpoint):
        x = leaf()
        out = checkpoint(fn, x)
        first = out if torch.is_tensor(out) else out[0]
        value = first.detach().clone()
        if after is not None:
            after(out)
        first.sum().backward()
        return [value, x.grad]

    return step


def run(step, checkpoint):
    """What the step returns, and the random state it leaves."""
    torch.manual_seed(0)
    result = step(checkpoint)
    return [result, torch.get_rng_state()]


def assert_same_as_plain(step):
    assert_same(run(step, remat.checkpoint), run(step, plain))


def assert_replayed_as_plain(step):
    """Also that ops were replayed: whoever keeps everything is right without effort."""
    expected = run(step, plain)
    remat.reset_stats()
    assert_same(run(step, remat.checkpoint), expected)
    assert remat.stats()["ops_replayed"] > 0


def assert_same_or_loud(step, expected_step):
    """Where plain raises, or nothing can restore what was lost: the gradient of the values that
    forward saw, or an error that names the op. Another number is never right."""
    expected = run(expected_step, plain)
    try:
        got = run(step, remat.checkpoint)
    except RuntimeError as error:
        if not names_an_op(str(error)):
            pytest.fail(f"the error does not name the op: {error}")
        return
    assert_same(got, expected)


def names_an_op(message):
    return "aten::" in message or "modified by an inplace operation" in message


def assert_same(got, expected):
    if torch.is_tensor(expected):
        assert torch.is_tensor(got), f"{got!r} is not a tensor"
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if not torch.equal(bits(got), bits(expected)):
            pytest.fail(f"differs in {count_differences(got, expected)}:\n{got}\nplain\n{expected}")
    elif isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            assert_same(got[key], expected[key])
    else:
        assert got == expected


def count_differences(a, b):
    return f"{int((a != b).sum())} of {a.numel()} elements"
