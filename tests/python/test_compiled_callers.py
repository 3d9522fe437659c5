"""Compiled code that calls a checkpoint: captured whole, or called once in a region."""

import functools

import pytest
import torch
from bitwise import assert_same, leaf
from torch.utils.checkpoint import create_selective_checkpoint_contexts

import remat


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


SAVE_ADDMM = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])


class Counted(torch.nn.Module):
    """Breaks the graph in the middle, and counts what is run of it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.BatchNorm1d(4)
        self.calls = 0

    def forward(self, x):
        x = self.norm(x).sin()
        torch._dynamo.graph_break()
        self.calls += 1
        return x.exp() * x


@pytest.fixture(params=[remat.checkpoint, torch.utils.checkpoint.checkpoint])
def by_any_name(request):
    """remat.checkpoint by its own name, and by torch's after install()."""
    if request.param is remat.checkpoint:
        yield remat.checkpoint
        return
    remat.install()
    yield torch.utils.checkpoint.checkpoint
    remat.uninstall()


@pytest.mark.parametrize("options", [{}, {"context_fn": SAVE_ADDMM}, {"debug": True}], ids=str)
def test_a_function_that_breaks_the_graph_is_called_once(by_any_name, options):
    broken, plain_one = Counted(), Counted()
    x, y = leaf(), leaf()
    step = torch.compile(lambda x: by_any_name(broken, x, **options).sum(), backend="aot_eager")
    step(x).backward()
    plain_one(y).sum().backward()
    assert broken.calls == 1
    assert broken.norm.num_batches_tracked == 1
    assert remat.stats()["ops_recorded"] > 0
    assert_same(x.grad, y.grad)


def test_layers_in_a_row_that_break_the_graph_are_called_once():
    layers = [Counted(), Counted(), Counted()]
    run = torch.compile(lambda x: remat.checkpoint_sequential(layers, 2, x), backend="aot_eager")
    run(leaf()).sum().backward()
    assert [layer.calls for layer in layers] == [1, 1, 1]


def test_layers_in_a_row_are_captured_whole():
    layers = [torch.sin, torch.exp, torch.tanh]

    def run(x):
        return remat.checkpoint_sequential(layers, 2, x)

    x = leaf()
    assert_same(torch.compile(run, backend="aot_eager", fullgraph=True)(x), run(x))


@pytest.mark.parametrize("options", [{"determinism_check": "none"}, {"policy": "dots_saveable"}])
def test_options_without_effect_are_captured_whole(options):
    weight = leaf().detach()

    def run(x):
        return remat.checkpoint(lambda h: (h @ weight).sin(), x, **options)

    x = leaf()
    assert_same(torch.compile(run, backend="aot_eager", fullgraph=True)(x), run(x))


def test_verify_mode_around_a_compiled_block():
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    block = torch.compile(layers, backend="aot_eager")
    x = leaf()
    with remat.verify(), remat.region():
        y = block(x * 2).sin().sum()
    y.backward()
    assert remat.stats()["ops_recorded"] > 0


def test_a_region_in_compiled_code():
    layer = Counted()

    def step(x):
        with remat.region():
            return layer(x).sin().sum()

    x, y = leaf(), leaf()
    torch.compile(step, backend="aot_eager")(x).backward()
    Counted()(y).sin().sum().backward()
    assert layer.calls == 1
    assert_same(x.grad, y.grad)
