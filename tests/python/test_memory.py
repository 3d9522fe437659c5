"""Bytes, from the counting allocator: kept after forward, at the peak, left after backward."""

import math

import pytest
import torch
from live import live_bytes
from torch import nn

import remat

WIDTH, ROWS = 64, 1024
ACTIVATION = ROWS * WIDTH * 4  # bytes; a weight takes a sixteenth of it


@pytest.fixture(scope="module", autouse=True)
def counting():
    remat.memory.install()


class Net:
    """Equal blocks. Gradients exist beforehand, so that a step's bytes are its activations."""

    def __init__(self, blocks):
        torch.manual_seed(0)
        self.blocks = [
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.Sigmoid())
            for _ in range(blocks)
        ]
        self.x = torch.randn(ROWS, WIDTH)
        for block in self.blocks:
            for parameter in block.parameters():
                parameter.grad = torch.zeros_like(parameter)

    def plain(self):
        h = self.x
        for block in self.blocks:
            h = block(h)
        return h.sum()

    def full(self):
        h = self.x
        for block in self.blocks:
            h = remat.checkpoint(block, h)
        return h.sum()

    def sqrt(self):
        return remat.checkpoint_sequential(self.blocks, input=self.x).sum()


def kept_after(forward):
    before = live_bytes()
    loss = forward()
    kept = remat.memory.live_bytes() - before
    loss.backward()
    return kept


def peak_of(forward):
    before = live_bytes()
    remat.memory.reset_peak()
    forward().backward()
    return remat.memory.peak_bytes() - before


def test_allocator_counts_a_tensor_to_the_byte():
    before = live_bytes()
    tensor = torch.empty(1000, dtype=torch.float64)
    assert remat.memory.live_bytes() - before == 8000
    del tensor
    assert remat.memory.live_bytes() == before


def test_peak_remembers_what_has_died():
    remat.memory.reset_peak()
    before = live_bytes()
    del_me = torch.empty(1000, dtype=torch.float64)
    del del_me
    assert remat.memory.peak_bytes() - before == 8000
    remat.memory.reset_peak()
    assert remat.memory.peak_bytes() == remat.memory.live_bytes()


@pytest.mark.parametrize("blocks", [4, 16, 64])
def test_full_keeps_the_block_inputs(blocks):
    inputs = (blocks - 1) * ACTIVATION  # the first block's is the caller's
    assert kept_after(Net(blocks).full) == pytest.approx(inputs, rel=0.02)


def test_full_drops_most_of_what_plain_keeps():
    net = Net(16)
    assert kept_after(net.full) < 0.35 * kept_after(net.plain)


def test_peak_grows_with_the_square_root_of_the_depth():
    depths = [4, 16, 64, 256]
    peaks = [peak_of(Net(depth).sqrt) for depth in depths]
    assert slope([math.log(n) for n in depths], [math.log(p) for p in peaks]) <= 0.55, peaks


def slope(xs, ys):
    """Least squares."""
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    covariance = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covariance / sum((x - mean_x) ** 2 for x in xs)


@pytest.mark.parametrize("forward", [Net.full, Net.sqrt])
def test_nothing_is_left_after_backward(forward):
    net = Net(4)
    forward(net).backward()
    before = live_bytes()
    loss = forward(net)
    loss.backward()
    assert remat.memory.live_bytes() - before == loss.nbytes
    assert remat._testing.kept_bytes() == 0


def test_nothing_is_left_without_a_backward():
    net = Net(4)
    before = live_bytes()
    loss = net.full()
    assert remat._testing.kept_bytes() > 0
    del loss
    assert remat.memory.live_bytes() == before
    assert remat._testing.kept_bytes() == 0


def test_no_growth_over_200_steps():
    net = Net(4)
    live = []
    for _ in range(200):
        net.full().backward()
        live.append(remat.memory.live_bytes())
    assert live[-1] == live[1]


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


@pytest.mark.isolated
def test_tapes_do_not_pile_up():
    def step():
        def fn(x):
            for _ in range(200):
                x = (x * 1.01).sin()
            return x

        remat.checkpoint(fn, torch.ones(4, requires_grad=True)).sum().backward()

    for _ in range(50):
        step()
    before = resident_bytes()
    for _ in range(200):
        step()  # 400 ops each: tapes that stay would take 80 000 nodes
    assert remat.stats()["ops_recorded"] >= 250 * 400
    assert resident_bytes() - before < 4 << 20
