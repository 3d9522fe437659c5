"""What is declared replayable is recomputed, and what is not is kept."""

import ctypes

import pytest
import torch
from bitwise import assert_same, leaf, plain, run, step_of

import remat


class Sine(torch.autograd.Function):
    """Saves an input, an intermediate result and its output."""

    forwards = 0

    @staticmethod
    def forward(ctx, x):
        Sine.forwards += 1
        cosine = x.cos()
        y = x.sin()
        ctx.save_for_backward(x, cosine, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, cosine, y = ctx.saved_tensors
        return grad * (cosine + 0 * x + 0 * y)


@remat.replayable
class DeclaredSine(Sine):
    pass


@remat.replayable
class WithSetupContext(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]


def replayed(fn):
    """Operators that backward repeats; the result is plain's in any case."""
    step = step_of(fn)
    expected = run(step, plain)
    remat.reset_stats()
    assert_same(run(step, remat.checkpoint), expected)
    return remat.stats()["ops_replayed"]


def test_function_is_recomputed_once_declared():
    assert replayed(lambda x: Sine.apply(x * 2) + 1) == 1  # x * 2, which it saves
    assert replayed(lambda x: DeclaredSine.apply(x * 2) + 1) == 3
    assert remat.stats()["kept_by_reason"]["unknown"] == 0


def test_function_with_setup_context():
    assert replayed(lambda x: WithSetupContext.apply(x * 2) + 1) == 2


def test_forward_of_a_declared_function_runs_once():
    y = remat.checkpoint(DeclaredSine.apply, leaf())
    Sine.forwards = 0
    y.sum().backward()
    assert Sine.forwards == 0


def test_declared_function_inside_one_that_is_not_is_kept():
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = DeclaredSine.apply(x)
            y.numpy()[:] *= 2  # which nobody sees
            ctx.save_for_backward(y)
            return y * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    assert replayed(lambda x: Outer.apply(x * 2)) == 0


def test_declared_function_in_place():
    @remat.replayable
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    replayed(lambda x: Double.apply(x * 2).sin().exp())


def test_declared_function_twice_differentiated():
    def step(checkpoint):
        x = leaf()
        y = checkpoint(lambda x: DeclaredSine.apply(x * 2).exp(), x)
        (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        grad.sin().sum().backward()
        return x.grad

    assert_same(run(step, remat.checkpoint), run(step, plain))


def test_verify_proves_a_false_declaration_of_a_function():
    @remat.replayable
    class Unseen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctypes.c_float.from_address(y.data_ptr() + 5 * y.element_size()).value += 1
            ctx.save_for_backward(y)
            return y * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    with remat.verify():
        y = remat.checkpoint(Unseen.apply, leaf(16, 16))
    with pytest.raises(RuntimeError, match=r"aten::exp, float32\[16, 16\], was changed"):
        y.sum().backward()


@pytest.fixture
def library():
    with torch.library._scoped_library("replayable_test", "DEF") as library:
        yield library


@pytest.mark.parametrize("declared", [False, True])
def test_operator_without_mutation(library, declared):
    name = f"scaled_{declared}"
    library.define(f"{name}(Tensor x, float by) -> Tensor")
    library.impl(name, lambda x, by: torch.from_numpy(x.numpy() * by), "CPU")
    op = getattr(torch.ops.replayable_test, name)
    if declared:
        remat.replayable(op)
    count = replayed(lambda x: x * op(x.detach(), 2.5).exp())
    assert count == (2 if declared else 1)  # exp, and what it reads


@pytest.mark.parametrize("declared", [False, True])
def test_operator_with_mutation(always_recompute, library, declared):
    name = f"add_one_{declared}"
    library.define(f"{name}(Tensor(a!) x) -> ()")

    def add_one(x):
        x.numpy()[...] += 1

    library.impl(name, add_one, "CPU")
    op = getattr(torch.ops.replayable_test, name)
    if declared:
        remat.replayable(f"replayable_test::{name}")

    def fn(x):
        y = x.detach() * 3
        op(y)
        return x * y.exp()

    assert replayed(fn) == (3 if declared else 1)


def test_mutated_keyword_is_read_before_it_is_written(always_recompute, library):
    library.define("accumulate(Tensor x, *, Tensor(a!) out) -> ()")

    def accumulate(x, *, out):
        out.numpy()[...] += x.numpy()

    library.impl("accumulate", accumulate, "CPU")
    remat.replayable(torch.ops.replayable_test.accumulate)

    def fn(x):
        y = x.detach() * 3
        torch.ops.replayable_test.accumulate(x.detach(), out=y)
        return x * y.exp()

    assert replayed(fn) == 3


def test_custom_op_of_torch_library():
    @remat.replayable
    @torch.library.custom_op("replayable_test::rotate", mutates_args=())
    def rotate(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy()[::-1].copy())

    assert replayed(lambda x: x * rotate(x.detach()).exp()) == 2


def test_verify_proves_a_false_declaration_of_an_operator(library):
    library.define("noise(Tensor x) -> Tensor")
    library.impl("noise", lambda x: torch.rand(x.shape), "CPU")
    remat.replayable(torch.ops.replayable_test.noise)
    with remat.verify():
        x = leaf()
        y = remat.checkpoint(lambda x: x * torch.ops.replayable_test.noise(x.detach()).exp(), x)
    with pytest.raises(RuntimeError, match="replayable_test::noise"):
        y.sum().backward()


@pytest.mark.parametrize("what", [None, len, torch.nn.Linear])
def test_what_cannot_be_declared(what):
    with pytest.raises(TypeError, match=r"remat\.replayable"):
        remat.replayable(what)


@pytest.mark.parametrize("name", ["aten::mul", torch.ops.aten.mul, "mul"])
def test_operator_of_torch_needs_no_declaration(name):
    with pytest.raises(RuntimeError, match="declar"):
        remat.replayable(name)
