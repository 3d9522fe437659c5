"""What a region holds is never more than what plain training keeps, with small tensors too."""

import pytest
import torch
import torch.nn.functional as F
from bitwise import leaf, plain
from live import live_bytes
from torch import nn

import remat


def kept(run_forward):
    """Bytes that a forward pass leaves, the result's own included."""
    run_forward()  # what is made once
    before = live_bytes()
    result = run_forward()
    bytes_kept = live_bytes() - before
    del result
    return bytes_kept


def recurrent(checkpoint):
    torch.manual_seed(0)
    cell, sequence = nn.GRUCell(32, 32), torch.randn(60, 8, 32)

    def forward():
        h = torch.zeros(8, 32)
        for x in sequence:
            h = checkpoint(cell, x, h)
        return h.square().sum()

    return forward


def stochastic(checkpoint):
    torch.manual_seed(0)
    drift, scale = nn.Linear(8, 8), nn.Parameter(torch.ones(8))

    def part(x):
        for _ in range(20):
            x = x + 0.01 * torch.tanh(drift(x)) + 0.1 * scale * torch.randn_like(x)
        return x

    def forward():
        x = torch.zeros(16, 8)
        for _ in range(20):
            x = checkpoint(part, x)
        return x.square().sum()

    return forward


def one_dropout(checkpoint):
    x = leaf(5, 5)
    return lambda: checkpoint(lambda x: F.dropout(x * 2, 0.5).sin(), x)


def many_inputs(checkpoint):
    x, inputs = leaf(), [leaf().detach() for _ in range(5)]
    return lambda: checkpoint(lambda x: (x + sum(inputs)).sin(), x)


def masked(checkpoint):
    x, mask = leaf(20, 20), torch.ones(20, 20)

    def forward():
        h = x
        for _ in range(8):
            h = checkpoint(lambda h: torch.tanh((h + mask).sin() * 2), h)
        return h

    return forward


PROGRAMS = [recurrent, stochastic, one_dropout, many_inputs, masked]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_more_is_held_than_plainly(program):
    assert kept(program(remat.checkpoint)) <= kept(program(plain))


@pytest.mark.parametrize(("program", "share"), [(recurrent, 0.2), (stochastic, 0.1)])
def test_a_region_a_step_saves_most(program, share):
    assert kept(program(remat.checkpoint)) <= share * kept(program(plain))


def test_dead_draws_hold_nothing():
    x = leaf()
    with remat.region() as region:
        y = (x * 2).sin()
        with torch.no_grad():
            for _ in range(200):
                torch.randn(4)
        held = live_bytes()
        for _ in range(200):
            torch.randn(4)
    assert live_bytes() - held < 20_000  # states of generators take 5 KB, and are shared
    assert region.held_bytes() == 0
    del y


def test_backward_inside_a_region_is_recomputed():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)])
    x = leaf(512, 64).detach()

    def forces(checkpoint):
        def fn(x):
            x = x.requires_grad_()
            energy = model(x).square().sum()
            return torch.autograd.grad(energy, x, create_graph=True)[0]

        return lambda: checkpoint(fn, x.detach())

    assert kept(forces(remat.checkpoint)) < 0.3 * kept(forces(plain))


def test_jagged_tensors_are_recomputed():
    values, offsets = leaf(600, 64), torch.tensor([0, 100, 300, 600])
    layers = [nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.LayerNorm(64)) for _ in range(4)]

    def forward(checkpoint):
        def run_layers():
            h = torch.nested.nested_tensor_from_jagged(values, offsets)
            for layer in layers:
                h = checkpoint(layer, h)
            return h.values()

        return run_layers

    assert kept(forward(remat.checkpoint)) < 0.5 * kept(forward(plain))


def test_offloading_around_layers_sees_their_inputs_alone():
    layers = [nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), nn.GELU()) for _ in range(4)]
    packed = []

    def forward():
        packed.clear()
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda t: packed.append(t) or t.clone(), lambda t: t
        )
        h = leaf(256, 64) * 1
        with hooks:
            for layer in layers:
                h = remat.checkpoint(layer, h)
        return h

    forward().sum().backward()
    assert [tuple(t.shape) for t in packed] == [(256, 64)] * 4
