"""Layers in a row: checkpoint_sequential, and segment for those that another forward runs."""

import math

import pytest
import torch
from bitwise import assert_same
from live import live_bytes
from torch import nn

import remat


class Net(nn.Module):
    def __init__(self, depth=9):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.2)) for _ in range(depth)
        )

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def gradients(net, forward=None):
    torch.manual_seed(1)
    y = (forward or net)(torch.randn(3, 4))
    y.sum().backward()
    return [y.detach(), *(p.grad for p in net.parameters())]


@pytest.mark.parametrize("segments", [None, 1, 3, 4, 9, 100])
def test_sequential_equals_plain(segments):
    net = Net()
    got = gradients(net, lambda x: remat.checkpoint_sequential(net.layers, segments, x))
    assert remat.stats()["ops_replayed"] > 0
    assert_same(got, gradients(Net()))


def test_sequential_takes_functions_and_a_sequential():
    x = torch.ones(4, requires_grad=True)
    y = remat.checkpoint_sequential([torch.sin, lambda x: x * 3, torch.exp], input=x)
    z = remat.checkpoint_sequential(nn.Sequential(nn.Tanh(), nn.Sigmoid()), segments=2, input=y)
    expected = torch.sigmoid(torch.tanh(torch.exp(torch.sin(torch.ones(4)) * 3)))
    assert_same(z, expected)


@pytest.mark.parametrize(
    "options", [{"use_reentrant": False}, {"preserve_rng_state": False}], ids=str
)
def test_sequential_takes_torchs_options(options):
    net = Net()
    got = gradients(net, lambda x: remat.checkpoint_sequential(net.layers, 3, x, **options))
    assert_same(got, gradients(Net()))


def test_sequential_refuses_an_unknown_option():
    with pytest.raises((TypeError, ValueError), match="no_such_option"):
        remat.checkpoint_sequential([torch.sin], 1, torch.ones(4), no_such_option=1)


@pytest.mark.parametrize("segments", [0, -1])
def test_sequential_refuses_less_than_one_segment(segments):
    with pytest.raises(ValueError, match="segments"):
        remat.checkpoint_sequential([torch.sin], segments, torch.ones(4))


def test_sequential_refuses_no_layers():
    with pytest.raises(ValueError, match="no layers"):
        remat.checkpoint_sequential([], input=torch.ones(4))


def inputs_kept_by(forward):
    """After forward of a wide batch, in inputs of a layer; the caller's x and y do not count."""
    x = torch.randn(16384, 4)
    before = live_bytes()
    y = forward(x)
    kept = remat.memory.live_bytes() - before - y.nbytes
    return kept / x.nbytes


@pytest.mark.parametrize("depth", [4, 9, 10, 17])
def test_default_is_the_square_root_of_the_depth(depth):
    remat.memory.install()
    net = Net(depth).eval()
    kept = inputs_kept_by(lambda x: remat.checkpoint_sequential(net.layers, input=x))
    assert kept == pytest.approx(math.ceil(math.sqrt(depth)) - 1, rel=0.02)


@pytest.mark.parametrize("segments", [None, 1, 4, 100])
def test_segment_equals_plain(segments):
    net = Net()
    remat.segment(net.layers, segments)
    got = gradients(net)
    assert remat.stats()["ops_replayed"] > 0
    assert_same(got, gradients(Net()))


def test_segment_keeps_the_inputs_of_its_groups():
    remat.memory.install()
    net = Net(9).eval()
    remat.segment(net.layers, 3)
    assert inputs_kept_by(net) == pytest.approx(2, rel=0.02)


def test_segment_is_removed():
    net = Net()
    handle = remat.segment(net.layers)
    handle.remove()
    assert_same(gradients(net), gradients(Net()))
    assert remat.stats()["ops_recorded"] == 0


def test_segment_without_gradients_records_nothing():
    net = Net().eval()
    remat.segment(net.layers)
    with torch.no_grad():
        net(torch.ones(3, 4))
    assert remat.stats()["ops_recorded"] == 0


def test_segment_survives_an_exception():
    net = Net()
    remat.segment(net.layers, 3)
    hook = net.layers[4].register_forward_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        net(torch.randn(3, 4))
    assert remat._testing.nodes() == 0  # its group's region does not stay open
    hook.remove()
    assert_same(gradients(net), gradients(Net()))
