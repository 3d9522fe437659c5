"""Verify mode: which operator, module, shape and element differ, and why."""

import ctypes

import pytest
import torch
from bitwise import assert_same, leaf, plain, run

import remat

LARGE = 160  # 160 x 160 floats are more than what a region copies


def write_unseen(tensor, value=7.0):
    """Changes one element that the spot guard does not sample, by its address: writes through numpy
    are noticed."""
    ctypes.c_float.from_address(tensor.data_ptr() + 5 * tensor.element_size()).value = value


def error_of(fn, *inputs, change=lambda: None):
    """What backward through a verified region raises when `change` comes before it."""
    with remat.verify():
        y = remat.checkpoint(fn, *inputs)
    change()
    with pytest.raises(RuntimeError, match=r"remat\.verify") as raised:
        y.sum().backward()
    return str(raised.value)


def test_right_program_passes():
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 80), torch.nn.BatchNorm1d(80), torch.nn.Dropout(), torch.nn.LSTM(80, 8)
    )

    def step(checkpoint):
        x = leaf()
        checkpoint(model, x)[0].sum().backward()
        return x.grad

    expected = run(step, plain)
    with remat.verify():
        assert_same(run(step, remat.checkpoint)[0], expected[0])
    assert remat.stats()["ops_replayed"] > 0


def test_input_that_was_changed_after_forward():
    scale = torch.ones(LARGE, LARGE)
    error = error_of(
        lambda x: (x * scale.cos()).sin(),
        leaf(LARGE, LARGE),
        change=lambda: write_unseen(scale),
    )
    assert "made outside the region" in error
    assert "float32[160, 160]" in error
    assert "[0, 0] to [0, 63]" in error


def test_parameter_that_was_changed_after_forward():
    linear = torch.nn.Linear(16, 16)
    error = error_of(
        lambda x: linear(x).sin(), leaf(4, 16), change=lambda: write_unseen(linear.weight)
    )
    assert "float32[16, 16]" in error
    assert "made outside the region" in error


def test_result_that_something_wrote_unseen():
    def fn(x):
        h = x.exp()
        write_unseen(h)
        return (h * 2).exp().sin()

    error = error_of(fn, leaf(16, 16))
    assert "aten::exp, float32[16, 16], was changed before aten::mul.Tensor read it" in error
    assert "element [0, 5]" in error


def test_result_that_was_written_before_autograd_saved_it():
    def fn(x):
        h = (x * 2).detach()
        write_unseen(h)
        return x * h

    assert "was changed before autograd saved it" in error_of(fn, leaf(16, 16))


def test_result_that_was_written_after_forward_and_still_lives():
    alive = []

    def fn(x):
        alive.append(x.exp())
        return (alive[0] * 2).sin()

    error = error_of(fn, leaf(16, 16), change=lambda: write_unseen(alive[0]))
    assert "was changed before backward read it" in error


@pytest.fixture
def unrepeatable():
    calls = [0]
    with torch.library._scoped_library("verify_test", "DEF") as library:
        library.define("counted(Tensor x) -> Tensor")

        def counted(x):
            calls[0] += 1
            y = x.clone()
            y.view(-1)[5] += calls[0]
            return y

        library.impl("counted", counted, "CPU")
        yield remat.replayable(torch.ops.verify_test.counted)


def test_kernel_that_does_not_repeat_itself(unrepeatable):
    class Block(torch.nn.Module):
        def forward(self, x):
            return (x * unrepeatable(x.detach()).exp()).sin()

    error = error_of(torch.nn.Sequential(Block()), leaf(16, 16))
    assert "verify_test::counted in 0 Block, float32[16, 16]" in error
    assert "does not repeat its own results" in error


@pytest.mark.parametrize("options", [{"debug": True}, {"determinism_check": "verify"}])
def test_options_of_torch_checkpoint_turn_it_on(unrepeatable, options):
    def fn(x):
        return (x * unrepeatable(x.detach()).exp()).sin()

    y = remat.checkpoint(fn, leaf(), **options)
    with pytest.raises(RuntimeError, match=r"remat\.verify"):
        y.sum().backward()


def test_option_of_region_turns_it_on(unrepeatable):
    x = leaf()
    with remat.region(verify=True):
        y = (x * unrepeatable(x.detach()).exp()).sin()
    with pytest.raises(RuntimeError, match=r"remat\.verify"):
        y.sum().backward()


def test_nothing_is_verified_outside(unrepeatable):
    with remat.verify():
        pass
    x = leaf(100, 100)
    y = remat.checkpoint(lambda x: (x * unrepeatable(x.detach()).exp()).sin(), x)
    y.sum().backward()  # the element that differs is none of the guard's samples


def test_verified_and_pruned_region():
    def fn(x):
        with torch.no_grad():
            for _ in range(2000):
                (x * 2).exp().sin()
        return (x * 2).exp().sin()

    def step(checkpoint):
        x = leaf()
        checkpoint(fn, x).sum().backward()
        return x.grad

    with remat.verify():
        assert_same(run(step, remat.checkpoint), run(step, plain))
