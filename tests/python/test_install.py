"""remat.install: torch's checkpoint functions are remat's, even where imported before."""

import sys
import types

import pytest
import torch
import torch.utils.checkpoint
from bitwise import assert_same, leaf

import remat


def block(x):
    return (x * 2).sin().exp()


@pytest.fixture
def importer():
    """A module that took the names before remat was installed."""
    module = types.ModuleType("an_importer_of_checkpoint")
    sys.modules[module.__name__] = module
    exec(
        "from torch.utils.checkpoint import checkpoint, checkpoint_sequential as in_a_row",
        module.__dict__,
    )
    yield module
    del sys.modules[module.__name__]


@pytest.fixture
def installed(importer):
    remat.install()
    yield
    remat.uninstall()


def recorded_by(forward):
    remat.reset_stats()
    x = leaf()
    forward(x).sum().backward()
    return remat.stats()["ops_recorded"]


def test_torchs_own_name_is_remats(installed):
    assert (
        recorded_by(lambda x: torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)) == 3
    )


def test_name_imported_before_is_remats(installed, importer):
    assert recorded_by(lambda x: importer.checkpoint(block, x, use_reentrant=True)) == 3


def test_sequential_imported_before_is_remats(installed, importer):
    assert (
        recorded_by(lambda x: importer.in_a_row([torch.sin, torch.exp], 2, x, use_reentrant=False))
        == 2
    )


def test_name_imported_afterwards_is_remats(installed):
    from torch.utils.checkpoint import checkpoint

    assert recorded_by(lambda x: checkpoint(block, x)) == 3


def test_uninstall_gives_every_name_back(importer):
    before = torch.utils.checkpoint.checkpoint, importer.checkpoint, importer.in_a_row
    remat.install()
    assert torch.utils.checkpoint.checkpoint is not before[0]
    remat.uninstall()
    assert (torch.utils.checkpoint.checkpoint, importer.checkpoint, importer.in_a_row) == before
    assert recorded_by(lambda x: importer.checkpoint(block, x, use_reentrant=False)) == 0


def test_install_twice_is_install_once(importer):
    before = importer.checkpoint
    remat.install()
    remat.install()
    remat.uninstall()
    assert importer.checkpoint is before
    remat.uninstall()
    assert importer.checkpoint is before


def test_installed_checkpoint_equals_torchs(importer):
    def gradient():
        x = leaf()
        importer.checkpoint(
            lambda x: importer.checkpoint(block, block(x), use_reentrant=False),
            x,
            use_reentrant=False,
        ).sum().backward()
        return x.grad

    expected = gradient()
    remat.install()
    try:
        assert_same(gradient(), expected)
    finally:
        remat.uninstall()


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_code_that_checkpoints(installed, fullgraph):
    def step(x):
        return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum()

    x, y = leaf(), leaf()
    torch.compile(step, fullgraph=fullgraph, backend="aot_eager")(x).backward()
    block(y).sum().backward()
    assert_same(x.grad, y.grad)
