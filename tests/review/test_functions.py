"""Operators and autograd Functions that are more, or less, than what they tell the dispatcher."""

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


def test_function_writes_its_input_and_does_not_say_so():
    class Reduce(torch.autograd.Function):  # as tensor parallel code reduces in place
        @staticmethod
        def forward(ctx, h):
            h.numpy()[:] *= 2
            return h

        @staticmethod
        def backward(ctx, grad):
            return grad * 1

    assert_same_as_plain(step_of(lambda x: Reduce.apply(x * 2).sin()))


def test_function_marks_its_input_dirty():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            h.numpy()[:] *= 2
            ctx.mark_dirty(h)
            return h

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    assert_same_as_plain(step_of(lambda x: Double.apply(x * 2).sin()))


def test_function_changes_a_parameter_that_was_read():
    class Halve(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.mul_(0.5)

    def fn(x):
        y = x.tanh().sigmoid().exp()  # saves what it makes of x
        with torch.no_grad():
            Halve.apply(x)
        return y

    assert_replayed_as_plain(step_of(fn))


def test_custom_op_draws_without_a_tag():
    @torch.library.custom_op("review::noise", mutates_args=())
    def noise(x: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(x)

    assert_same_as_plain(step_of(lambda x: x * noise(x.detach())))


def test_custom_op_has_a_state():
    calls = [0]

    @torch.library.custom_op("review::counter", mutates_args=())
    def counter(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x * calls[0]

    def step(checkpoint):
        calls[0] = 0
        return [*step_of(lambda x: x * counter(x.detach()))(checkpoint), calls[0]]

    assert_same_as_plain(step)


def test_op_with_an_autograd_kernel_only():
    with torch.library._scoped_library("review_a", "DEF") as library:
        library.define("foo(Tensor x) -> Tensor")
        library.impl("foo", lambda x: x.sin().exp(), "Autograd")
        assert_same_as_plain(step_of(lambda x: torch.ops.review_a.foo(x * 2).sin()))


@pytest.mark.parametrize("end", [torch.exp, lambda y: y.exp().sin()])
def test_op_whose_training_kernel_differs_from_its_inference_kernel(end):
    with torch.library._scoped_library("review_b", "DEF") as library:
        library.define("foo(Tensor x) -> Tensor")
        library.impl("foo", lambda x: (x * 3).sin(), "Autograd")
        library.impl("foo", lambda x: (x * 2).sin(), "CPU")
        assert_same_as_plain(step_of(lambda x: end(torch.ops.review_b.foo(x * 2))))


def test_op_that_throws_is_forgotten():
    def fn(x):
        y = x * 2
        with pytest.raises(RuntimeError):
            y.add_(torch.ones(3, 3))
        with pytest.raises(RuntimeError):
            torch.mm(y, torch.ones(3, 3))
        return (y * y).sin()

    assert_same_as_plain(step_of(fn))


def test_function_lets_its_dequantized_weights_die():
    alive = []

    class Matmul4bit(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, packed):
            weight = torch.empty(packed.shape).copy_(packed)
            alive.append(weight.untyped_storage()._weak_ref())
            ctx.packed = packed
            return torch.mm(x, weight)

        @staticmethod
        def backward(ctx, grad):
            return torch.mm(grad, ctx.packed.float().t()), None

    def step(checkpoint):
        alive.clear()
        packed = [torch.ones(64, 64, dtype=torch.int8) for _ in range(6)]
        x = leaf(2, 64)

        def fn(h):
            for weight in packed:
                h = Matmul4bit.apply(h, weight).sin()
            return h

        y = checkpoint(fn, x)
        living = sum(not torch.UntypedStorage._expired(weight) for weight in alive)
        y.sum().backward()
        return [living, x.grad]

    assert run(step, plain)[0][0] == 0
    assert_same(run(step, remat.checkpoint), run(step, plain))


def test_what_does_not_repeat_its_bits_is_kept():
    x, target = leaf(), leaf().detach()
    with remat.region() as region:
        y = torch.linalg.lstsq(x * 2, target).solution.sin()
    assert "aten::mul" in region.tape()
    assert "lstsq" not in region.tape()
    y.sum().backward()
    assert x.grad.isfinite().all()
