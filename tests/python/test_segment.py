"""Segments of layers that forward leaves out, walks otherwise, or runs on several threads."""

import threading

import pytest
import torch
from bitwise import assert_same
from live import live_bytes
from torch import nn

import remat

WIDTH = 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Net(nn.Module):
    """Nine layers in three parts, and a head."""

    def __init__(self, depth=9):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, skip=(), walks=1, fails_at=None):
        for index, layer in [*enumerate(self.layers)] * walks:
            if index == fails_at:
                raise ZeroDivisionError
            if index not in skip:
                x = layer(x)
        return self.head(x)


def segmented():
    net = Net()
    remat.segment(net.layers)
    return net


def train(net, **how):
    net.zero_grad()
    net(torch.ones(8, WIDTH), **how).square().mean().backward()
    return [p.grad for p in net.parameters()]


def nothing_is_open():
    with remat.budget("1GiB"):  # it cannot begin in an open region
        return remat._testing.nodes() == 0


WALKS = [
    {"skip": (8,)},
    {"skip": (2, 5)},
    {"skip": (0, 3, 6)},
    {"skip": (0, 1, 2)},
    {"skip": range(4, 9)},
    {"skip": range(9)},
    {"walks": 2},
    {"walks": 2, "skip": (8,)},
]


@pytest.mark.parametrize("how", WALKS, ids=str)
def test_layers_that_are_left_out_leave_no_region_open(how):
    net = segmented()
    for walk in ({}, how, {}, how):
        assert_same(train(net, **walk), train(Net(), **walk))
        assert nothing_is_open()


@pytest.mark.parametrize("skip", [(8,), (0, 3, 6), (4, 5, 6, 7, 8)], ids=str)
def test_a_part_whose_layers_are_left_out_saves_memory(skip):
    def held_by(net):
        before = live_bytes()
        y = net(torch.ones(256, WIDTH), skip=skip)
        return live_bytes() - before - y.nbytes

    assert held_by(segmented()) < 0.5 * held_by(Net())


def test_what_follows_the_layers_is_not_recorded():
    net = segmented()
    remat.reset_stats()
    net(torch.ones(8, WIDTH), skip=(8,))
    recorded = remat.stats()["ops_recorded"]
    layers = Net()
    layers.head = nn.Identity()
    remat.segment(layers.layers)
    remat.reset_stats()
    layers(torch.ones(8, WIDTH), skip=(8,))
    assert recorded == remat.stats()["ops_recorded"]


@pytest.mark.parametrize("at", [0, 1, 2, 3, 8])
def test_an_exception_between_layers_leaves_no_region_open(at):
    net = segmented()
    with pytest.raises(ZeroDivisionError):
        net(torch.ones(8, WIDTH), fails_at=at)
    assert nothing_is_open()
    assert_same(train(net), train(Net()))


def test_an_interrupt_in_a_layer_leaves_the_next_step_right():
    net = segmented()

    def interrupt(*_):
        raise KeyboardInterrupt

    hook = net.layers[4].up.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        net(torch.ones(8, WIDTH))
    hook.remove()
    assert nothing_is_open()
    assert_same(train(net), train(Net()))


def test_a_loop_outside_of_modules_is_closed_by_backward():
    net = segmented()
    x = torch.ones(8, WIDTH)
    for layer in net.layers[:-1]:
        x = layer(x)
    x.sum().backward()
    assert remat._testing.nodes() == 0


@pytest.mark.parametrize("around", ["region", "checkpoint", "budget"])
def test_a_loop_in_another_region_is_closed_with_it(around):
    def forward(x):
        for layer in net.layers[:-1]:
            x = layer(x)
        return x

    net, x = segmented(), torch.ones(8, WIDTH)
    if around == "checkpoint":
        remat.checkpoint(forward, x).sum().backward()
    elif around == "region":
        with remat.region():
            y = forward(x)
        y.sum().backward()
    else:
        with remat.budget("1GiB"):
            forward(x).sum().backward()
    assert nothing_is_open()


def test_layers_that_are_checkpointed_one_by_one():
    net = segmented()
    x = torch.ones(8, WIDTH)
    for layer in net.layers:
        x = remat.checkpoint(layer, x)
    x.sum().backward()
    assert nothing_is_open()


class Interleaved(Net):
    """A module that is no layer runs behind each layer."""

    def forward(self, x):
        for layer in self.layers:
            x = self.head(layer(x))
        return x


def test_a_module_between_layers_cuts_a_part_once():
    net, plain = Interleaved(), Interleaved()
    remat.segment(net.layers)
    regions = []
    for _ in range(3):
        remat.reset_stats()
        assert_same(train(net), train(plain))
        regions.append(remat.stats()["regions"])
    assert regions[1:] == [3, 3]


def test_segments_in_segments():
    def nested():
        net = Net(3)
        net.layers = nn.ModuleList(Net(4) for _ in range(3))
        return net

    net = nested()
    remat.segment(net.layers, 1)
    for inner in net.layers:
        remat.segment(inner.layers)
        inner.register_forward_pre_hook(lambda *_: ((_[1][0], (3,))))
    plain = nested()
    for inner in plain.layers:
        inner.register_forward_pre_hook(lambda *_: ((_[1][0], (3,))))
    for skip in ((), (2,), (0,)):
        assert_same(train(net, skip=skip), train(plain, skip=skip))
        assert nothing_is_open()


def on_another_thread(act, while_running):
    errors, stop = [], threading.Event()

    def run():
        try:
            while not stop.is_set():
                act()
        except Exception as error:
            errors.append(error)

    actor = threading.Thread(target=run)
    actor.start()
    try:
        while_running()
    finally:
        stop.set()
        actor.join()
    assert errors == []


@pytest.mark.parametrize("prepare", ["segment", "enable"])
def test_an_actor_without_gradients_runs_the_model_that_trains(prepare):
    net = segmented() if prepare == "segment" else Net()
    fit = remat.enable(net, "1GiB") if prepare == "enable" else None

    def act():
        with torch.no_grad():
            net(torch.ones(8, WIDTH), skip=(8,))

    def learn():
        for step in range(9):
            assert_same(train(net, skip=(step,)), train(Net(), skip=(step,)))

    on_another_thread(act, learn)
    remat.disable(net)
    assert fit is None or fit.report().steps == 9


@pytest.mark.parametrize("prepare", ["segment", "enable"])
def test_two_threads_train_one_model(prepare):
    net = segmented() if prepare == "segment" else Net()
    if prepare == "enable":
        remat.enable(net, "1GiB")

    def gradient():
        loss = net(torch.ones(8, WIDTH), skip=(8,)).square().mean()
        return torch.autograd.grad(loss, net.head.weight)

    expected = gradient()
    on_another_thread(gradient, lambda: [assert_same(gradient(), expected) for _ in range(20)])
    remat.disable(net)


def test_an_interrupted_call_does_not_end_a_budget():
    net = Net()
    fit = remat.enable(net, "1GiB")

    def interrupt(*_):
        raise KeyboardInterrupt

    hook = net.head.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        net(torch.ones(8, WIDTH))
    hook.remove()
    train(net)
    train(net)
    remat.disable(net)
    assert fit.report().steps == 3


@pytest.mark.parametrize("model", [None, "model", lambda x: x])
def test_enable_refuses_what_is_no_module(model):
    with pytest.raises(TypeError, match=r"takes a torch\.nn\.Module"):
        remat.enable(model, "1GiB")


def test_compiled_layers_have_no_regions():
    net = segmented()
    expected = train(Net())
    torch.compile(net, backend="aot_eager", fullgraph=True)(torch.ones(8, WIDTH)).square().mean()
    assert_same(train(net), expected)
