"""What a region keeps alive: no graph, no gathered value, no record may outlive its use."""

import os
import weakref

import numpy
import pytest
import torch
from bitwise import leaf, plain
from live import live_bytes

import remat

MIB = 1 << 20


class Scale(torch.autograd.Function):
    """Its result is no recorded op's: the region holds it as an external."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


def bytes_left_by(step, times=20):
    """Live bytes after dropping the step's outputs without a backward, that many times."""
    remat.memory.install()
    step()
    before = live_bytes()
    for _ in range(times):
        step()
    return remat.memory.live_bytes() - before


UNRECORDED = {"Function": Scale.apply, "vmap": torch.vmap(lambda row: row * 3)}


@pytest.mark.parametrize("unrecorded", UNRECORDED.values(), ids=UNRECORDED.keys())
def test_external_does_not_hold_its_own_region(unrecorded):
    x = leaf(64, 64)

    def fn(x):
        h = unrecorded((x * 2).sin())  # its graph holds a handle of this region
        return (h * 2).exp().sin()

    assert bytes_left_by(lambda: remat.checkpoint(fn, x)) == 0


def test_kept_output_does_not_hold_its_own_graph():
    x = leaf(64, 64)

    def step():
        remat.checkpoint(lambda x: (x * 2).exp().sin().exp(), x, policy="everything_saveable")

    assert bytes_left_by(step) == 0


def layers(x, count):
    for _ in range(count):
        x = (x * 1.01).sin()
    return x


def test_recomputed_values_do_not_stay_with_retain_graph():
    y = remat.checkpoint(lambda x: layers(x, 10).sum(), leaf(256, 256))
    after_forward = remat._testing.kept_bytes()
    y.backward(retain_graph=True)
    assert remat._testing.kept_bytes() <= after_forward


def test_one_long_region_is_not_recomputed_whole():
    count, x = 600, leaf(32, 32)
    held = []
    with remat.region():
        h = x
        for _ in range(count):
            h = (h * 1.01).sin()
            h.register_hook(lambda grad: held.append(remat._testing.kept_bytes()))
    h.sum().backward()
    assert 0 < max(held) <= count * x.nbytes / 2  # plain holds one tensor a layer


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def growth_under(checkpoint, fn, *args):
    def measured(*args):
        before = resident_bytes()
        fn(*args)
        return resident_bytes() - before

    return checkpoint(measured, *args)


@pytest.mark.isolated
def test_values_that_nothing_reads_again_leave_an_open_region():
    def rollout():
        with torch.no_grad():
            for _ in range(200):
                batch = torch.from_numpy(
                    numpy.ones((256, 1024), "float32")
                )  # 1 MiB the region did not make
                (batch * 2).sum()

    growth_under(plain, rollout)
    assert growth_under(remat.checkpoint, rollout) <= growth_under(plain, rollout) + 64 * MIB


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer keeps freed blocks back"
)
@pytest.mark.isolated
def test_a_recorded_op_takes_few_bytes():
    ops = 100_000

    def chain(x):
        with torch.no_grad():
            for _ in range(ops):
                x = x * 1.0001

    x = torch.randn(4)
    extra = growth_under(remat.checkpoint, chain, x) - growth_under(plain, chain, x)
    assert extra / ops < 350


def test_objects_of_the_region_die_with_its_output():
    class Thing:
        scale = torch.full((4, 4), 2.0)

    thing = Thing()
    alive = weakref.ref(thing)
    y = remat.checkpoint(lambda x, thing: (x * thing.scale).sin().exp(), leaf(), thing)
    del thing
    assert alive() is None
    y.sum().backward()
    del y
    assert remat._testing.kept_bytes() == 0
