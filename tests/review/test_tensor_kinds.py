"""Tensors without plain bytes, transforms and modes: right, with no saving at worst."""

import pytest
import torch
import torch.nn.functional as F
from bitwise import assert_replayed_as_plain, assert_same_as_plain, leaf, step_of
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# ---- Transforms around a region: it runs plainly there.


def body(x):
    return (x * 2).sin().exp()


def around(transform):
    """A step whose transform calls a checkpointed function."""

    def step(checkpoint):
        x = leaf()
        y = transform(lambda t: checkpoint(body, t))(x)
        y.sum().backward()
        return [y.detach(), x.grad]

    return step


@pytest.mark.parametrize(
    "transform",
    [
        torch.vmap,
        lambda fn: torch.func.grad(lambda t: fn(t).sum()),
        lambda fn: torch.vmap(torch.func.grad(lambda t: fn(t).sum())),
        lambda fn: lambda x: torch.func.jvp(fn, (x,), (x.cos(),))[1],
        lambda fn: lambda x: torch.func.vjp(fn, x)[1](x.cos())[0],
        lambda fn: torch.func.jacrev(lambda t: fn(t).sum(0)),
        lambda fn: torch.func.jacfwd(lambda t: fn(t).sum(0)),
        lambda fn: torch.func.hessian(lambda t: fn(t).sum()),
    ],
    ids=["vmap", "grad", "vmap of grad", "jvp", "vjp", "jacrev", "jacfwd", "hessian"],
)
def test_transform_around(transform):
    assert_same_as_plain(around(transform))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.func.jvp(torch.sin, (x * 2,), (x * 3,))[1].exp(),
        lambda x: torch.func.vjp(torch.tanh, x * 2)[1](x)[0].exp(),
        lambda x: torch.vmap(torch.func.grad(lambda t: t.sin().sum()))(x * 2).exp(),
        lambda x: torch.func.jacrev(lambda t: t.sin().sum(0))(x * 2).exp(),
        lambda x: torch.vmap(F.dropout, randomness="different")(x * 2).exp(),
    ],
    ids=["jvp", "vjp", "vmap of grad", "jacrev", "vmap of dropout"],
)
def test_transform_inside(fn):
    assert_same_as_plain(step_of(fn))


def test_forward_mode_gradient_through_a_region():
    def step(checkpoint):
        x = leaf()
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, x.detach().cos())
            y = checkpoint(body, dual)
            tangent = torch.autograd.forward_ad.unpack_dual(y).tangent
            y.sum().backward()
        return [y.detach(), tangent.detach(), x.grad]

    assert_same_as_plain(step)


# ---- Modes: what watches every call.


class SeeFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class SeeOperators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [SeeFunctions, SeeOperators])
def test_mode_inside(mode):
    def fn(x):
        with mode():
            y = (x * 2).sin()
        return y.exp().sin()

    assert_replayed_as_plain(step_of(fn))


@pytest.mark.parametrize("mode", [SeeFunctions, SeeOperators])
def test_mode_around(mode):
    def step(checkpoint):
        x = leaf()
        with mode():
            y = checkpoint(lambda x: (x * 2).sin().exp().sin(), x)
            y.sum().backward()
        return [y.detach(), x.grad]

    assert_replayed_as_plain(step)


def test_mode_around_backward_sees_no_recomputation():
    """It is no part of the program that the mode watches. Hooks of any kind make torch detach."""

    def operators(checkpoint):
        y = checkpoint(lambda x: (x * 2).sin().exp(), leaf()).sum()
        with SeeOperators() as mode:
            y.backward()
        return [name for name in map(str, mode.seen) if name != "aten.detach.default"]

    assert_same_as_plain(operators)


# ---- Kinds of tensors.


class Tagged(torch.Tensor):
    """A subclass that has bytes of its own and keeps its class."""


@pytest.mark.parametrize("require", [True, False])
def test_subclass_with_bytes(require):
    def step(checkpoint):
        x = leaf()
        tag = leaf().detach().as_subclass(Tagged).requires_grad_(require)
        y = checkpoint(lambda x, tag: ((x * tag).sin() * tag).exp(), x, tag)
        y.sum().backward()
        return [type(y).__name__, y.detach().as_subclass(torch.Tensor), x.grad]

    assert_same_as_plain(step)


def test_strided_nested_tensor():
    def step(checkpoint):
        rows = [leaf(2, 4), leaf(3, 4)]

        def fn(a, b):
            nested = torch.nested.as_nested_tensor([a * 2, b * 3])
            return torch.nested.to_padded_tensor((nested * 2).sin() * nested, 0.0).exp()

        y = checkpoint(fn, *rows)
        y.sum().backward()
        return [y.detach(), *[row.grad for row in rows]]

    assert_same_as_plain(step)


@pytest.mark.isolated
def test_jagged_nested_tensor():
    def step(checkpoint):
        values = leaf(5, 4)
        offsets = torch.tensor([0, 2, 5])

        def fn(values):
            nested = torch.nested.nested_tensor_from_jagged(values * 2, offsets)
            return (nested.sin() * nested).exp().values()

        y = checkpoint(fn, values)
        y.sum().backward()
        return [y.detach(), values.grad]

    assert_same_as_plain(step)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse(layout):
    def step(checkpoint):
        x = leaf()

        def fn(x):
            dense = (x * 2).relu()
            sparse = dense.to_sparse(layout=layout)
            return (sparse @ x.sin()).exp() + (sparse * 2).to_dense()

        y = checkpoint(fn, x)
        y.sum().backward()
        return [y.detach(), x.grad]

    assert_same_as_plain(step)


def test_gradient_of_a_sparse_embedding():
    def step(checkpoint):
        weight = leaf(6, 4)
        index = torch.tensor([1, 4, 1])
        fn = lambda weight: F.embedding(index, weight, sparse=True).sin().exp()  # noqa: E731
        checkpoint(fn, weight).sum().backward()
        return [weight.grad.coalesce().indices(), weight.grad.coalesce().values()]

    assert_replayed_as_plain(step)


def test_quantized():
    def step(checkpoint):
        x = leaf()

        def fn(x):
            quantized = torch.quantize_per_tensor((x * 2).detach(), 0.05, 8, torch.quint8)
            return (x * quantized.dequantize()).sin().exp()

        y = checkpoint(fn, x)
        y.sum().backward()
        return [y.detach(), x.grad]

    assert_replayed_as_plain(step)


def test_fake_quantization():
    def fn(x):
        y = torch.fake_quantize_per_tensor_affine(x * 2, 0.05, 8, 0, 255)
        return y.sin().exp()

    assert_replayed_as_plain(step_of(fn))


def test_complex():
    def fn(x):
        z = torch.complex(x.sin(), x.cos())
        z = (z.conj() * z.exp()).mH @ z
        return torch.view_as_real(torch.fft.fft(z)).tanh() + z.abs()[..., None]

    assert_replayed_as_plain(step_of(fn))


def test_meta_tensors():
    with torch.device("meta"):
        x = torch.empty(4, 4, requires_grad=True)

    def step(checkpoint):
        y = checkpoint(body, x)
        (grad,) = torch.autograd.grad(y.sum(), x)
        return [tuple(y.shape), tuple(grad.shape), grad.device.type]

    assert_same_as_plain(step)


def test_distributed_tensor(tmp_path):
    """A DTensor of one process: a wrapper around its part."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    store = f"file://{tmp_path}/store"
    distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))

        def step(checkpoint):
            x = leaf()
            weight = distribute_tensor(leaf().detach(), mesh, [Shard(0)]).requires_grad_()

            def fn(x):
                spread = DTensor.from_local(x * 2, mesh, [Replicate()])
                return ((spread @ weight).sin() @ weight).exp().full_tensor()

            y = checkpoint(fn, x)
            y.sum().backward()
            return [y.detach(), x.grad, weight.grad.full_tensor()]

        assert_same_as_plain(step)
    finally:
        distributed.destroy_process_group()
