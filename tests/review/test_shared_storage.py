"""Parameters that share a storage, and leaves that a function makes."""

from functools import partial

import pytest
import torch
from bitwise import assert_same, assert_same_as_plain, leaf, plain, run
from torch import nn

import remat

pytestmark = pytest.mark.usefixtures("always_recompute")


def flat_parameters(count, size):
    parameters = [nn.Parameter(torch.empty(size, size)) for _ in range(count)]
    flat = leaf(count * size * size).detach() / size**0.5
    nn.utils.vector_to_parameters(flat, parameters)
    return flat, parameters


def through_no_grad(_flat, b):
    with torch.no_grad():
        b.clamp_(-0.05, 0.05)


def through_data(_flat, b):
    b.data.copy_(b.data / b.data.norm(dim=0))


def through_the_vector(flat, b):
    flat[b.numel() : 2 * b.numel()].mul_(0.5)


@pytest.mark.parametrize("size", [16, 200])
@pytest.mark.parametrize("write", [through_no_grad, through_data, through_the_vector])
def test_one_of_several_is_written_between_reads(write, size):
    def step(checkpoint):
        flat, (a, b, c) = flat_parameters(3, size)

        def fn(x):
            h = torch.tanh(torch.tanh(x @ a) @ c) + b.detach()[0]
            write(flat, b)
            return torch.tanh(h @ b)

        checkpoint(fn, leaf(8, size).detach()).sum().backward()
        return [a.grad, b.grad, c.grad]

    assert_same_as_plain(step)


def test_each_is_stepped_as_its_gradient_comes():
    def step(checkpoint):
        _, parameters = flat_parameters(6, 200)

        def descend(parameter):
            with torch.no_grad():
                parameter.sub_(parameter.grad, alpha=0.1)
            parameter.grad = None

        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(descend)

        def fn(x):
            for parameter in parameters:
                x = torch.tanh(x @ parameter)
            return x

        checkpoint(fn, leaf(8, 200).detach()).sum().backward()
        return [parameter.detach() for parameter in parameters]

    assert_same_as_plain(step)


def with_data(delta, gradient):
    delta.data.add_(gradient.sign(), alpha=0.1)


def with_other_data(delta, gradient):
    delta.data = (delta.data + 0.1 * gradient.sign()).clamp(-0.3, 0.3)


def without_grad(delta, gradient):
    with torch.no_grad():
        delta += 0.1 * gradient.sign()


@pytest.mark.parametrize("kind", [torch.Tensor.requires_grad_, nn.Parameter])
@pytest.mark.parametrize("update", [with_data, with_other_data, without_grad])
@pytest.mark.parametrize("size", [16, 200])
def test_leaf_that_the_function_makes_and_updates(size, update, kind):
    def step(checkpoint):
        w, x = leaf(size, size), leaf(8, size).detach()

        def fn(x):
            delta = kind(torch.zeros_like(x))
            for _ in range(3):
                loss = torch.tanh((x + delta) @ w).square().sum()
                update(delta, torch.autograd.grad(loss, delta)[0])
            return torch.tanh((x + delta) @ w)

        checkpoint(fn, x).sum().backward()
        return w.grad

    assert_same_as_plain(step)


def test_small_parameter_is_stepped_between_pipelined_micro_batches():
    def step(checkpoint):
        w, b = leaf(200, 200), leaf(200)

        def fn(x):
            return torch.tanh((x @ w + b).sin())  # nobody saves b

        first, second = (checkpoint(fn, leaf(8, 200).detach() * i).sum() for i in (1, 2))
        first.backward()
        with torch.no_grad():
            b -= 0.1 * b.grad
        second.backward()
        return [w.grad, b.grad]

    assert_same_as_plain(step)


@pytest.mark.parametrize("policy", [None, "dots_saveable"])
def test_value_that_is_freed_in_the_region(policy):
    def step(checkpoint):
        w = leaf(200, 200)

        def fn(x):
            h = x @ w
            y = h + 1
            h.untyped_storage().resize_(0)
            return y.sin()

        checkpoint(fn, leaf(8, 200).detach()).sum().backward()
        return w.grad

    assert_same(run(step, partial(remat.checkpoint, policy=policy)), run(step, plain))
