"""remat.checkpoint: torch.utils.checkpoint.checkpoint's signature, and what it does beyond it."""

import collections
import dataclasses
import gc

import pytest
import torch
import torch.utils.checkpoint
from bitwise import assert_replayed_as_plain, assert_same, leaf, plain, run

import remat


def block(x):
    return (x * 2).sin().exp()


@pytest.mark.parametrize(
    "options",
    [
        {"use_reentrant": True},
        {"use_reentrant": False},
        {"preserve_rng_state": False},
        {"early_stop": False},
        {"use_reentrant": False, "preserve_rng_state": True, "early_stop": True},
    ],
    ids=str,
)
def test_options_of_torch_change_nothing(options):
    def step(checkpoint):
        x = leaf()
        forward = (
            (lambda x: checkpoint(noisy, x))
            if checkpoint is plain
            else (lambda x: checkpoint(noisy, x, **options))
        )
        y = forward(x)
        y.sum().backward()
        return [y.detach(), x.grad]

    def noisy(x):
        return torch.nn.functional.dropout(block(x)).sin()

    assert_replayed_as_plain(step)


def test_context_fn_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"context_fn.*policy"):
        remat.checkpoint(block, leaf(), context_fn=lambda: (torch.no_grad(), torch.no_grad()))


def test_unknown_determinism_check_lists_the_known_ones():
    with pytest.raises(ValueError, match="verify"):
        remat.checkpoint(block, leaf(), determinism_check="all")


def test_options_at_torchs_defaults_are_accepted():
    noop = torch.utils.checkpoint.noop_context_fn
    x = leaf()
    y = remat.checkpoint(block, x, context_fn=noop, determinism_check="default", debug=False)
    assert_same(y, block(x))


def test_keywords_reach_the_function():
    def scaled(x, *, scale, shift=0.0):
        return (x * scale + shift).sin().exp()

    def step(checkpoint):
        x, scale = leaf(), leaf()
        checkpoint(scaled, x, scale=scale, shift=0.5).sum().backward()
        return [x.grad, scale.grad]

    assert_replayed_as_plain(step)


def test_arguments_may_be_nested():
    def fn(batch, table):
        return (batch["x"] * table[0][1]).sin().exp()

    def step(checkpoint):
        x, w = leaf(), leaf()
        checkpoint(fn, {"x": x}, [(None, w)]).sum().backward()
        return [x.grad, w.grad]

    assert_replayed_as_plain(step)


Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    value: torch.Tensor
    label: str


def test_outputs_keep_their_type_and_gradient():
    def fn(x):
        return {"pair": Pair(x.sin(), 3), "box": Box(x.exp(), "b"), "none": None, "bools": x > 0}

    x = leaf()
    out = remat.checkpoint(fn, x)
    assert isinstance(out["pair"], Pair)
    assert isinstance(out["box"], Box)
    assert (out["pair"].right, out["box"].label, out["none"]) == (3, "b", None)
    assert not out["bools"].requires_grad
    (out["pair"].left * out["box"].value).sum().backward()
    expected = leaf()
    (expected.sin() * expected.exp()).sum().backward()
    assert_same(x.grad, expected.grad)


def test_function_runs_once():
    calls = []
    remat.checkpoint(lambda x: calls.append(1) or block(x), leaf()).sum().backward()
    assert calls == [1]
    assert remat.stats()["ops_replayed"] > 0


def test_module_is_called_with_its_hooks_once():
    layer = torch.nn.Linear(4, 4)
    calls = []
    layer.register_forward_hook(lambda *_: calls.append(1))
    remat.checkpoint(layer, leaf()).sin().sum().backward()
    assert calls == [1]


def test_double_backward():
    def step(checkpoint):
        x = leaf()
        (grad,) = torch.autograd.grad(
            checkpoint(block, checkpoint(block, x)).sum(), x, create_graph=True
        )
        grad.square().sum().backward()
        return [grad.detach(), x.grad]

    assert_replayed_as_plain(step)


def test_backward_again_with_retain_graph():
    def step(checkpoint):
        x = leaf()
        y = checkpoint(block, x).sum()
        y.backward(retain_graph=True)
        first = x.grad.clone()
        y.backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
        return [first, x.grad]

    assert_replayed_as_plain(step)


def test_backward_for_some_inputs():
    def step(checkpoint):
        x, w = leaf(), leaf()
        checkpoint(lambda x: (x @ w).sin().exp(), x).sum().backward(inputs=[w])
        return [x.grad is None, w.grad]

    assert_replayed_as_plain(step)


def test_exception_leaves_nothing_behind():
    def fails(x):
        block(x)
        raise KeyError("in the middle")

    x = leaf()
    with pytest.raises(KeyError, match="in the middle"):
        remat.checkpoint(fails, x)
    gc.collect()  # the traceback held the frame, and the frame its tensors
    assert remat._testing.nodes() == 0
    assert remat._testing.kept_bytes() == 0

    def step(checkpoint):
        x = leaf()
        checkpoint(block, x).sum().backward()
        return x.grad

    assert_replayed_as_plain(step)


def test_nested():
    def step(checkpoint):
        x = leaf()
        y = checkpoint(lambda x: checkpoint(block, checkpoint(block, x).sin()).exp().sin(), x)
        y.sum().backward()
        return [y.detach(), x.grad]

    assert_replayed_as_plain(step)


def test_exception_in_an_inner_region_is_survived():
    def inner(x):
        raise ValueError("inner", x.sin())

    def outer(x):
        h = block(x)
        with pytest.raises(ValueError, match="inner"):
            remat.checkpoint(inner, h)
        return block(h)

    x = leaf()
    remat.checkpoint(outer, x).sum().backward()
    expected = leaf()
    block(block(expected)).sum().backward()
    assert_same(x.grad, expected.grad)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_is_recorded(mode):
    net = torch.nn.Linear(4, 4).eval()
    with mode():
        y = remat.checkpoint(lambda x: block(net(x)), torch.ones(4, 4))
        expected = block(net(torch.ones(4, 4)))
    assert_same(y, expected)
    assert remat.stats()["ops_recorded"] == 0
    assert remat._testing.kept_bytes() == 0


def test_random_state_after_the_step_is_plains():
    def step(checkpoint):
        x = leaf()
        checkpoint(lambda x: torch.nn.functional.dropout(block(x)).sin(), x).sum().backward()
        return torch.rand(3)

    assert_same(run(step, remat.checkpoint), run(step, plain))
