"""Regions around, inside and beside what else transforms, interprets or watches a program."""

import pytest
import torch
import torch.nn.functional as F
from bitwise import assert_replayed_as_plain, assert_same, assert_same_as_plain, leaf, step_of
from torch.profiler import profile

import remat


def test_gradient_inside_the_region():
    def fn(x):
        y = (x * 2).sin().exp()
        (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (grad * grad).sin() + y

    assert_replayed_as_plain(step_of(fn))


def test_func_grad_inside():
    def fn(x):
        return x * torch.func.grad(lambda t: t.sin().sum())(torch.ones(4, 4))

    assert_same_as_plain(step_of(fn))


def test_vmap_inside():
    assert_same_as_plain(step_of(lambda x: (torch.vmap(lambda row: row.sin() * 2)(x) * 2).exp()))


@torch.jit.script
def scripted(a, b):
    c = a * b
    e = torch.exp(torch.sin(c)) + a
    return e * c


@torch.jit.script
def deep_stack(a, b):
    return torch.cat([a * b, torch.sin(a), torch.exp(torch.cos(b) * 2) + a], 0)


def test_scripted_function_inside():
    for _ in range(3):  # the profiling executor specializes after a few calls
        scripted(leaf(), leaf())
    assert_same_as_plain(step_of(lambda x: scripted(x, x.detach() * 2)))


@pytest.mark.isolated
def test_interpreter_with_other_values_below_the_arguments():
    def fn(x):
        with torch.no_grad():
            mask = deep_stack(x * 1, x * 2)
        return torch.cat([x, x, x], 0) * mask

    assert_same_as_plain(step_of(fn))


def test_profiler_inside():
    def fn(x):
        with profile():
            y = (x * 2).sin()
        return y.exp().sin()

    assert_replayed_as_plain(step_of(fn))


def test_profiler_around():
    with profile():
        assert_replayed_as_plain(step_of(lambda x: (x * 2).sin().exp().sin()))


def test_autocast_switched_off_inside():
    def step(checkpoint):
        x, weight = leaf(), leaf()

        def fn(x):
            a = (x @ weight).sin()
            with torch.autocast("cpu", enabled=False):
                b = (a.float() @ weight).exp()
            return F.softmax(b @ weight, -1) @ weight

        with torch.autocast("cpu", torch.bfloat16):
            y = checkpoint(fn, checkpoint(fn, x))
        y.float().sum().backward()
        return [y.detach(), x.grad, weight.grad]

    assert_replayed_as_plain(step)


def identity_hooks(packed):
    return torch.autograd.graph.saved_tensors_hooks(
        lambda t: packed.append(t.shape) or t, lambda t: t
    )


def test_hooks_inside_a_region_come_first():
    def step(checkpoint):
        x, packed = leaf(), []

        def fn(x):
            with identity_hooks(packed):
                return (x * 2).sin().exp()

        checkpoint(fn, x).sum().backward()
        return [len(packed), x.grad]

    assert_same_as_plain(step)


@pytest.mark.parametrize("policy", [None, "dots_saveable"])
def test_hooks_around_a_region_get_what_it_keeps(always_recompute, policy):
    packed, w = [], leaf(8, 8)
    x = leaf(3000, 8).detach()  # read by three operators of the region: one tensor for the hooks
    with identity_hooks(packed):
        y = remat.checkpoint(lambda: ((x * 2).sin() @ w + x).exp().tanh(), policy=policy)
    (gradient,) = torch.autograd.grad(y.sum(), w)
    assert packed == [(3000, 8)] * (2 if policy else 1)
    assert_same(gradient, torch.autograd.grad(((x * 2).sin() @ w + x).exp().tanh().sum(), w)[0])


class Wrapper(torch.Tensor):
    """Has bytes and no address: its data lives in another tensor, as a DTensor's does."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(value):
            return value.inner if isinstance(value, cls) else value

        def wrap(value):
            return cls(value) if isinstance(value, torch.Tensor) else value

        tree_map = torch.utils._pytree.tree_map
        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


class Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Wrapper(x.detach().clone())

    @staticmethod
    def backward(ctx, grad):
        return grad.inner


@pytest.mark.isolated
def test_wrapper_subclass_inside():
    def step(checkpoint):
        x = leaf()
        y = checkpoint(lambda x: (Wrap.apply(x * 2).sin().exp() * 3).exp(), x)
        y.sum().backward()
        return [y.detach().inner, x.grad]

    assert_same_as_plain(step)


def test_backward_inside_a_region_is_not_recorded():
    with remat.region():
        y = (leaf() * 2).sin().exp().sum()
        after_forward = remat._testing.nodes()
        y.backward()
        assert after_forward > 0
        root = 1  # the gradient of y, which backward makes before it starts
        assert remat._testing.nodes() <= after_forward + root
