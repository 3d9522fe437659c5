"""Custom Functions whose backward does with what it saved what plain training allows."""

from functools import partial

import pytest
import torch
from bitwise import assert_same, assert_same_as_plain, leaf, plain, run
from torch import nn

import remat

pytestmark = pytest.mark.usefixtures("always_recompute")


class Scratch(torch.autograd.Function):
    """Backward writes what forward saved, which nobody else saved."""

    @staticmethod
    def forward(ctx, x, sparsely):
        ctx.save_for_backward(x)
        ctx.sparsely = sparsely
        return x.softmax(-1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        y = x.softmax(-1)
        written = x[0, 1:2] if ctx.sparsely else x
        written.zero_()
        return y * (grad - (grad * y).sum(-1, keepdim=True)), None


@pytest.mark.parametrize("sparsely", [False, True])
@pytest.mark.parametrize("size", [16, 200])
def test_scratch_on_what_others_are_recomputed_from(size, sparsely):
    def step(checkpoint):
        w = leaf(size, size)

        def fn(x):
            h = x @ w
            return (
                Scratch.apply(h, sparsely) + torch.sigmoid(h).sin()
            )  # which saves its result, not h

        checkpoint(fn, leaf(8, size).detach()).sum().backward()
        return w.grad

    assert_same_as_plain(step)


def test_scratch_on_what_the_region_was_given():
    def step(checkpoint):
        w = leaf(200, 200)
        x = w * 2
        checkpoint(lambda: torch.sigmoid(x).sin() + Scratch.apply(x, False)).sum().backward()
        return w.grad

    assert_same_as_plain(step)


class Precomputed(torch.autograd.Function):
    """Backward returns a gradient that forward was given, as it is."""

    @staticmethod
    def forward(ctx, w, gradient):
        ctx.save_for_backward(gradient)
        return (w * gradient).sum()

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0], None


@pytest.mark.parametrize("requires_grad", [False, True])
def test_gradient_that_is_a_saved_tensor_of_the_program(requires_grad):
    def step(checkpoint):
        w, seen = leaf(), []

        def fn(x):
            seen.append(torch.tanh(x * 2))
            return Precomputed.apply(w, seen[-1])

        x = leaf() if requires_grad else leaf().detach()
        for _ in range(2):
            checkpoint(fn, x).backward()
        w.grad.mul_(0.5)
        return [w.grad, *(each.detach() for each in seen)]

    assert_same_as_plain(step)


class OwnGradient(torch.autograd.Function):
    """Backward accumulates the weight's gradient itself, into the object that forward saved."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        w.main_grad.add_(x.t() @ grad)
        w.grad = w.main_grad * 2
        return grad @ w.t(), None


class Weight(nn.Parameter):
    """As libraries have them."""


@pytest.mark.parametrize("verified", [False, True])
def test_weight_gradient_that_backward_writes(verified):
    def step(checkpoint):
        w = Weight(leaf(8, 8).detach())
        w.main_grad = torch.zeros(8, 8)

        def fn(x):
            return OwnGradient.apply((x * 2).tanh(), w).sin()

        checkpoint(fn, leaf(4, 8)).sum().backward()
        return [w.main_grad, w.grad]

    assert_same(run(step, partial(remat.checkpoint, debug=verified)), run(step, plain))


class Attribute(torch.autograd.Function):
    """Backward looks at an attribute of what forward saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0].scale


def test_attributes_of_saved_tensors():
    def step(checkpoint):
        x = leaf()

        def fn(x):
            y = x * 2
            y.scale = 5.0
            return Attribute.apply(y).sin()

        checkpoint(fn, x).sum().backward()
        return x.grad

    assert_same_as_plain(step)


class FreesItsInput(torch.autograd.Function):
    """As reversible layers do, which make their input again from their output."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        x.untyped_storage().resize_(0)
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_function_that_frees_its_input():
    def step(checkpoint):
        x = leaf()
        checkpoint(lambda x: FreesItsInput.apply(x * 1.5).sin(), x).sum().backward()
        return x.grad

    assert_same_as_plain(step)


def test_tensor_without_bytes_as_an_argument():
    hollow = torch.zeros(16)
    hollow.untyped_storage().resize_(0)

    class Ignores(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, _):
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            return grad * 3, None

    def step(checkpoint):
        x = leaf()
        checkpoint(lambda x: Ignores.apply(x.sin(), hollow).exp(), x).sum().backward()
        return x.grad

    assert_same_as_plain(step)


def test_plain_training_reads_its_saved_tensors_as_before():
    w = leaf()
    w.main_grad = torch.zeros(4, 4)
    OwnGradient.apply(leaf().detach(), w).sum().backward()
    assert w.grad is not None
    assert remat.stats()["regions"] == 0
