"""In-place writes, views and aliases that the recorder does see."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from bitwise import (
    assert_replayed_as_plain,
    assert_same,
    assert_same_as_plain,
    assert_same_or_loud,
    leaf,
    step_of,
)
from live import live_bytes
from torch.utils._python_dispatch import TorchDispatchMode

import remat


def sigmoid_of_own_output(x):
    y = x * 2
    y.sigmoid_()
    return y + 0


def power(x):
    y = x * 2
    y.pow_(3)
    return y + 0


def chain_on_one_buffer(x):
    h = x * 2
    for _ in range(3):
        h.mul_(x)
        h.pow_(2)
    return h + 0


def private_noise(x):
    return F.rrelu(x * 2, training=True).sin()


def one_tensor_three_times(x):
    h = (x * 2).sin()
    return torch.cat([h, h, h]).exp()


def conjugate_view(x):
    z = torch.complex(x, x * 2).conj()
    return torch.view_as_real((z * z).exp())


def product_over_its_own_argument(x):
    """Writes over what it has yet to read: meaningless, legal, and the same every time."""
    y = x.detach().exp()
    torch.addmm(y, x.detach(), y, out=y)
    return (x + y).sin().exp()


@pytest.mark.parametrize(
    "fn",
    [
        product_over_its_own_argument,
        sigmoid_of_own_output,
        power,
        chain_on_one_buffer,
        private_noise,
        one_tensor_three_times,
        conjugate_view,
    ],
)
def test_replays_to_the_bit(fn):
    assert_replayed_as_plain(step_of(fn))


def test_foreach():
    def fn(x):
        masks = [torch.full((4, 4), 2.0), torch.full((4, 4), 3.0)]
        torch._foreach_mul_(masks, 5.0)
        return x * masks[0] * masks[1]

    assert_same_as_plain(step_of(fn))


def test_out_argument_is_resized():
    def fn(x):
        mask = torch.empty(0)
        torch.mul(torch.full((4, 4), 2.0), 3.0, out=mask)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_set_gives_a_tensor_another_storage():
    def fn(x):
        mask, other = torch.ones(4, 4) * 2, torch.ones(4, 4) * 3
        mask.set_(other)
        other.mul_(2)
        return x * mask

    assert_same_as_plain(step_of(fn))


def test_data_is_assigned_inside_the_region():
    def fn(x):
        h = torch.ones(4, 4) * 2
        twice = h * 1
        h.data = torch.full((4, 4), 9.0)
        return x * twice * h

    assert_same_as_plain(step_of(fn))


def test_lazy_clone_shares_memory_until_it_is_written():
    def fn(x):
        h = x * 2
        clone = torch._lazy_clone(h.detach())
        clone.mul_(2)
        return h.sin() * clone

    assert_same_as_plain(step_of(fn))


def test_inference_tensor_inside():
    def fn(x):
        with torch.inference_mode():
            mask = torch.ones(4, 4) * 2
        return (x * 2).sin() * mask.clone()

    assert_replayed_as_plain(step_of(fn))


def test_product_with_itself_in_place():
    def fn(x):
        y = x * 2
        return y.mul_(y) + 0

    assert_same_or_loud(step_of(fn), expected_step=step_of(lambda x: (x * 2) * (x * 2) + 0))


def test_private_clone_of_an_in_place_op_is_dropped():
    remat.memory.install()
    x = leaf(256, 256)
    before = live_bytes()
    y = remat.checkpoint(chain_on_one_buffer, x)  # plain keeps a clone of h for every mul_ and pow_
    kept = remat.memory.live_bytes() - before - y.nbytes
    assert kept <= x.nbytes


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_moves_its_statistics_once(affine):
    def step(checkpoint):
        norm = torch.nn.BatchNorm1d(4, affine=affine)
        x = leaf(3, 4)
        y = checkpoint(lambda x: (norm(x * 2).exp() + norm(x).exp()).sin(), x)
        y.sum().backward()
        return [y.detach(), x.grad, norm.running_mean, norm.running_var, norm.num_batches_tracked]

    assert_replayed_as_plain(step)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_net(kind):
    def step(checkpoint):
        net = kind(4, 4, 2, dropout=0.5)
        x = leaf(4, 1, 4)
        y = checkpoint(lambda x: net(x * 1)[0].sin(), x)
        y.sum().backward()  # oneDNN's LSTM returns no workspace while grad mode is off
        return [y.detach(), x.grad, *(p.grad for p in net.parameters())]

    assert_replayed_as_plain(step)


def test_foreach_of_tensors_that_agree_where_samples_are_taken(always_recompute):
    def step(checkpoint):
        x, y = leaf(20, 20), leaf(20, 20)

        def fn(x, y):
            first, second = x + 0, x + 0
            other = torch.zeros(20, 20)
            other.view(-1)[7] = 1
            second = second + other * y
            torch._foreach_mul_([first, second], [y * 1, y * 2])
            torch._foreach_sigmoid_([first, second])
            return (first + 2 * second).sin()

        checkpoint(fn, x, y).sum().backward()
        return [x.grad, y.grad]

    assert_same_as_plain(step)


def test_view_in_place_is_no_write(always_recompute):
    def fn(x):
        h = x * 2
        h.t_()
        h.unsqueeze_(0)
        return (h.sin() * h).exp()

    x = leaf()
    y = remat.checkpoint(fn, x)
    assert remat.stats()["kept_by_reason"]["input"] == 0
    y.sum().backward()
    assert_same_as_plain(step_of(fn))


def test_clone_of_a_strided_part_is_recomputed(always_recompute):
    weight = leaf(4, 4).detach()

    def fn(x):
        h = x @ weight
        left, right = h.unsafe_chunk(2, 1)
        left.mul_(right)  # autograd saves a clone of left, whose strides are others
        return (left + right).sin()

    y = remat.checkpoint(fn, leaf())
    assert remat.stats()["kept_by_reason"]["unknown"] == 0
    del y
    assert_same_as_plain(step_of(fn))


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.nn.functional.dropout(x * 2, 0.1).sin().exp(),
        lambda x: (torch.empty_like(x).uniform_() * x).sin().exp(),
        lambda x: ((x * 2).mul_(3).add_(1) * x).sin().exp(),
        lambda x: (torch.zeros_like(x).fill_(2) * x).sin().exp(),
    ],
)
def test_dispatch_mode_changes_nothing_of_what_is_held(always_recompute, fn):
    held = []
    for mode in (contextlib.nullcontext, Mode):
        x = leaf(200, 200)
        torch.manual_seed(0)
        with remat.region() as region, mode():
            y = fn(x)
        held.append(region.held_bytes())
        y.sum().backward()
        held.append(x.grad)
    assert_same(held[:2], held[2:])
