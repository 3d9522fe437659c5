"""Writes that are no recorded operator: what the tape says of the buffer is not its content."""

import ctypes
import functools
import threading

import numpy
import pytest
import torch
from bitwise import (
    assert_replayed_as_plain,
    assert_same,
    assert_same_as_plain,
    leaf,
    plain,
    run,
    step_of,
)

import remat


@pytest.mark.parametrize(
    "factory", [torch.zeros, torch.ones, lambda *shape: torch.ones(*shape).clone()]
)
def test_numpy_write_to_a_factory_result(factory):
    def fn(x):
        mask = factory(4, 4)
        mask.numpy()[:] = 7.0  # so write Triton and pybind kernels, through the address
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_write_through_dlpack():
    def fn(x):
        mask = torch.ones(4, 4)
        torch.from_dlpack(mask).mul_(5)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_two_storages_over_one_memory():
    def fn(x):
        base = torch.full((4, 4), 2.0)
        alias = torch.from_numpy(base.numpy())
        mask = alias + 1
        base.mul_(10)  # is a write to alias too: replaying alias + 1 would give 21
        return x * mask

    assert_same_as_plain(step_of(fn))


def seen_twice(tensor, begin=0):
    """Another tensor over the memory of its rows from there on."""
    return torch.from_numpy(tensor.detach().numpy()[begin:])


@pytest.mark.parametrize("size", [4, 256])
@pytest.mark.parametrize("begin", [0, 1])
def test_second_storage_over_a_parameter(size, begin):
    def step(checkpoint):
        x = leaf(size, size)

        def fn(x):
            y = x[begin:].sin().tanh().exp()
            return y.sin() * seen_twice(x, begin).cos() * x[begin:].exp().sin()

        checkpoint(fn, x).sum().backward()
        return x.grad

    assert_replayed_as_plain(step)


@pytest.mark.parametrize("size", [4, 256])
@pytest.mark.parametrize("begin", [0, 1])
def test_second_storage_over_what_the_region_did_not_make(always_recompute, size, begin):
    given = leaf(size, size).detach()

    def fn(x):
        before = (given + 1).exp()[begin:]
        between = seen_twice(given, begin).cos()
        return x * before.sin() * between.sin() * (given + 2).exp()[begin:].sin()

    def step(checkpoint):
        x = leaf(size - begin, size)
        checkpoint(fn, x).sum().backward()
        return x.grad

    assert_replayed_as_plain(step)


def test_write_to_what_a_policy_keeps():
    def fn(x):
        with torch.no_grad():
            mask = torch.ones(4, 4) * 2
            y = mask.sin().cos()
            torch.autograd._enable_record_function(False)
            mask.mul_(3)
            torch.autograd._enable_record_function(True)
        return x * y.exp() * mask

    keeping = functools.partial(remat.checkpoint, policy="keep_ops(mul)")
    assert_same(run(step_of(fn), keeping), run(step_of(fn), plain))


def test_write_through_data():
    def fn(x):
        mask = torch.ones(4, 4)
        mask.data.mul_(3)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_raw_write_with_a_version_bump():
    def fn(x):
        mask = torch.ones(4, 4) * 2
        mask.numpy()[:] = 9
        torch.autograd.graph.increment_version(mask)  # as compiled code does for what it mutates
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_in_place_under_vmap():
    def fn(x):
        mask = torch.ones(4, 4) * 2
        torch.vmap(lambda row: row.mul_(3))(mask)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_write_while_record_function_is_disabled():
    def fn(x):
        mask = torch.ones(4, 4) * 2
        torch.autograd._enable_record_function(False)
        mask.mul_(3)
        torch.autograd._enable_record_function(True)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_write_on_another_thread():
    def fn(x):
        mask = torch.ones(4, 4) * 2
        writer = threading.Thread(target=lambda: mask.mul_(3))
        writer.start()
        writer.join()
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_memory_of_an_empty_tensor_is_written_by_numpy():
    def fn(x):
        mask = torch.empty(4, 4)
        mask.numpy()[:] = numpy.arange(16.0).reshape(4, 4)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_holes_of_a_strided_tensor_are_nobodys_content():
    def fn(x):
        rows = torch.empty_strided((4, 4), (7, 1))  # three floats a row belong to no element
        return rows.copy_(x * 2).sin()

    def spoil_the_free_memory(_):
        for _ in range(64):
            torch.full((28,), 1e30)

    assert_same_as_plain(step_of(fn, after=spoil_the_free_memory))


def by_numpy(tensor):
    return tensor.numpy()


def by_numpys_dlpack(tensor):
    return numpy.from_dlpack(tensor)


def by_torchs_dlpack(tensor):
    return torch.from_dlpack(tensor)


def by_pointer(tensor):
    return (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())


MAKERS = {
    "zeros": lambda x: torch.zeros(320),
    "full": lambda x: torch.full((320,), 2.0),
    "arange": lambda x: torch.arange(320.0),
    "rand_like": lambda x: torch.rand_like(x),
    "clone": lambda x: x.detach().clone(),
    "sin": lambda x: x.detach().sin(),
}


@pytest.mark.parametrize("by", [by_numpy, by_numpys_dlpack, by_torchs_dlpack, by_pointer])
@pytest.mark.parametrize("made", MAKERS)
def test_sparse_write_that_no_sample_shows(always_recompute, made, by):
    if by is by_pointer and made == "sin":
        pytest.skip("promised for results of factories alone")

    def step(checkpoint):
        torch.manual_seed(0)
        x = leaf(320)

        def fn(x):
            filled = MAKERS[made](x)
            array = by(filled)
            array[2], array[7] = 3.0, 5.0
            return (x * filled).sin()

        checkpoint(fn, x).sum().backward()
        return x.grad

    assert_same_as_plain(step)


@pytest.mark.parametrize("by", [by_numpy, by_pointer])
def test_staging_tensor_is_refilled_between_reads(always_recompute, by):
    def step(checkpoint):
        x, staging = leaf(320), torch.zeros(320)
        array = by(staging)

        def fn(x):
            total = 0
            for i in range(3):
                array[7] = float(i)
                total = total + (x + staging).exp().sin()
            return total

        checkpoint(fn, x).sum().backward()
        return x.grad

    assert_same_as_plain(step)
