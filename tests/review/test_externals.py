"""What a region reads but did not make, and what of it is still there when backward replays."""

import functools

import numpy
import pytest
import torch
from bitwise import (
    assert_replayed_as_plain,
    assert_same,
    assert_same_as_plain,
    assert_same_or_loud,
    leaf,
    plain,
    run,
    step_of,
)

import remat

SMALL, LARGE = 4, 256  # 64 bytes and 256 KiB: the second is not copied at first read


def test_output_that_plain_saved_is_overwritten():
    def overwrite(y):
        y.detach().mul_(3)

    assert_same_or_loud(step_of(torch.exp, after=overwrite), expected_step=step_of(torch.exp))


def test_live_value_that_plain_did_not_save_is_overwritten():
    def fn(x):
        h = x * 2
        return (h + 1).exp().sin(), h

    def overwrite(outputs):
        outputs[1].detach().zero_()  # a replay that reads the live h would start from zeros

    assert_same_as_plain(step_of(fn, after=overwrite))


def test_kept_value_that_plain_did_not_save_is_overwritten():
    def fn(x):
        h = x.sin()
        return (h.tanh().sigmoid() * 0.5).exp(), h

    def overwrite(outputs):
        outputs[1].detach().zero_()  # the policy keeps it, and dropped what it was made of

    step = step_of(fn, after=overwrite)
    keeping = functools.partial(remat.checkpoint, policy="keep_ops(sin)")
    assert_same(run(step, keeping), run(step, plain))


def refilled_buffer(size, refill):
    """The buffer holds ones in forward and is refilled before backward; plain saved buffer + 1."""

    def step(checkpoint):
        x = leaf(size, size)
        array = numpy.ones((size, size), "float32")
        buffer = torch.from_numpy(array) if refill == "numpy" else torch.ones(size, size)
        y = checkpoint(lambda x, buffer: (buffer + 1).sin() * x, x, buffer)
        if refill == "numpy":
            array[:] = 0  # no version counter moves
        elif refill == "torch":
            buffer.zero_()
        y.sum().backward()
        return x.grad

    return step


def test_copy_lies_as_the_original_does(always_recompute):
    """The bits of dot depend on where its arguments begin."""
    size = 1003
    array = numpy.empty(size + 32, "float32")
    begin = -array.ctypes.data // 4 % 16 + 1  # 4 behind a multiple of 64
    vector = torch.from_numpy(array[begin : begin + size])
    other = leaf(size).detach()
    vector.copy_(other.cos())
    if torch.dot(vector, other) == torch.dot(vector.clone(), other):
        pytest.skip("not on this machine")
    assert_replayed_as_plain(step_of(lambda x: (x * torch.dot(vector, other)).sin()))


@pytest.mark.parametrize("refill", ["torch", "numpy"])
def test_small_staging_buffer_is_refilled(refill):
    assert_same_as_plain(refilled_buffer(SMALL, refill))


@pytest.mark.parametrize("refill", ["torch", "numpy"])
def test_large_staging_buffer_is_refilled(refill):
    assert_same_or_loud(refilled_buffer(LARGE, refill), expected_step=refilled_buffer(LARGE, None))


def swapped_parameter(swap):
    def step(checkpoint):
        weight = torch.nn.Parameter(torch.ones(4, 4))
        y = checkpoint(lambda weight: (weight * 2).sin().exp(), weight)
        if swap:
            weight.data = torch.full((4, 4), 5.0)
        y.sum().backward()
        return weight.grad

    return step


def test_data_of_a_parameter_is_swapped():
    assert_same_or_loud(swapped_parameter(True), expected_step=swapped_parameter(False))


@pytest.mark.isolated
def test_storage_of_a_live_value_is_emptied():
    held = []

    def fn(x):
        held[:] = [torch.ones(4, 4) * 2]
        return (x * held[0]).sin()

    def empty(_):
        held[0].untyped_storage().resize_(0)

    expected = run(step_of(fn), plain)
    assert_same(run(step_of(fn, after=empty), remat.checkpoint), expected)


def test_weight_is_updated_while_backward_needs_its_cast():
    def step(checkpoint):
        weight, x = leaf().detach().fill_(0.5).requires_grad_(), leaf()
        with torch.autocast("cpu", torch.bfloat16):
            y = checkpoint(lambda x: (x @ weight).sin(), x)
        with torch.no_grad():
            weight.fill_(0.25)  # legal: plain saved the bfloat16 copy
        y.float().sum().backward()
        return [x.grad, weight.grad]

    assert_same_as_plain(step)


def sharded_layers(checkpoint, inside):
    """ZeRO-3: a parameter's data exists only around its use. Returns how many outlive forward."""
    weights = [torch.nn.Parameter(torch.empty(0)) for _ in range(8)]
    gathered = []

    def gather(weight):
        weight.data = torch.full((64, 64), 0.001)
        gathered.append(weight.data.untyped_storage()._weak_ref())

    def release(weight):
        weight.data = torch.empty(0)

    def layer(h, weight):
        if inside:
            gather(weight)
        h = torch.mm(h, weight)
        if inside:
            release(weight)
        return h

    h = leaf(2, 64)
    for weight in weights:
        if not inside:
            gather(weight)
        h = checkpoint(layer, h, weight)
        release(weight)
    return sum(not torch.UntypedStorage._expired(storage) for storage in gathered)


@pytest.mark.parametrize("inside", [False, True], ids=["gather outside", "gather inside"])
def test_gathered_weights_die_after_forward(inside):
    assert sharded_layers(plain, inside) == 0
    assert sharded_layers(remat.checkpoint, inside) == 0


def test_gather_pool_is_reused():
    def step(checkpoint):
        full = [leaf().detach() * (i + 1) for i in range(3)]
        weights = [torch.nn.Parameter(torch.empty(0)) for _ in full]
        pool = torch.empty(16)

        def gather(i):
            pool.numpy()[:] = full[i].numpy().ravel()
            weights[i].data = pool.view(4, 4)

        x = h = leaf(2, 4)
        for i, weight in enumerate(weights):
            gather(i)
            h = checkpoint(lambda h, i=i: torch.mm(h, weights[i]), h)
            weight.data = torch.empty(0)
            h.register_hook(lambda grad, i=i: gather(i))
        h.sum().backward()
        return [x.grad, *(weight.grad for weight in weights)]

    assert_same_as_plain(step)
