"""torch.compile inside, around and after a region."""

import functools

import pytest
import torch
from bitwise import assert_same_as_plain, leaf, plain, step_of
from torch.utils.checkpoint import create_selective_checkpoint_contexts

import remat

BACKENDS = ("aot_eager", "inductor")


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_code_writes_what_the_region_made(backend):
    """No operator shows the write, only the version counter."""

    @torch.compile(backend=backend)
    def triple(mask):
        mask.mul_(3)
        mask.add_(1)
        return mask.sum()

    triple(torch.ones(4, 4))

    def fn(x):
        with torch.no_grad():
            mask = torch.ones(4, 4) * 2
            triple(mask)
        return x * mask

    assert_same_as_plain(step_of(fn))


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_block_inside(backend):
    weight = leaf().detach()
    block = torch.compile(lambda x: (x @ weight).sin().exp() @ weight, backend=backend)
    assert_same_as_plain(step_of(lambda x: block(x * 2).sin()))


SAVE_ADDMM = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.addmm.default])


@pytest.mark.parametrize("options", [{}, {"context_fn": SAVE_ADDMM}], ids=["plain", "context_fn"])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_code_around(fullgraph, options):
    layer = torch.nn.Linear(4, 4)

    def step(checkpoint):
        given = {} if checkpoint is plain else options

        def loss(x):
            return checkpoint(lambda h: layer(h).sin().exp(), x, **given).sum()

        x = leaf()
        torch.compile(loss, fullgraph=fullgraph, backend="aot_eager")(x).backward()
        return x.grad

    assert_same_as_plain(step)


def test_compiled_autograd_refuses_the_handles():
    with remat.region():
        y = (leaf() * 2).sin().exp().sum()
    compiler = torch.compile(backend="eager")
    with (
        torch._dynamo.compiled_autograd._enable(compiler),
        pytest.raises(RuntimeError, match="only supports python saved tensor hooks"),
    ):
        y.backward()
