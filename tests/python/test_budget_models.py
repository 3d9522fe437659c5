"""Byte budgets on models of many kinds: what is planned is measured, and gradients are plain's."""

import copy

import pytest
import torch
from bitwise import assert_same
from budget_models import KINDS
from live import live_bytes

import remat


def step(kind, model, seed, size, around=None):
    """Gradients and state after one step on a batch that the seed makes."""
    torch.manual_seed(seed)
    batch = kind.batch(size)
    model.zero_grad()
    if around is None:
        kind.loss(model, batch).backward()
    else:
        with around:
            kind.loss(model, batch).backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return gradients, [b.clone() for b in model.buffers()], torch.get_rng_state()


def plain_peak(kind, model, size):
    """Bytes over what is live before the step, the parameters' gradients among them."""
    batch = kind.batch(size)
    remat.memory.install()
    before = live_bytes()
    remat.memory.reset_peak()
    kind.loss(copy.deepcopy(model), batch).backward()
    weights = sum(t.nbytes for t in [*model.parameters(), *model.buffers()])
    return remat.memory.peak_bytes() - before - weights


def least_budget(kind, model):
    with pytest.raises(remat.DoesNotFit) as error:
        step(kind, copy.deepcopy(model), 0, kind.size, remat.budget("1KiB"))
    return error.value.least_bytes


@pytest.mark.parametrize("share", [0.3, 0.6, 1])  # of the way from the least that fits to all
@pytest.mark.parametrize("name", KINDS)
def test_a_step_takes_the_bytes_that_were_planned(name, share):
    kind = KINDS[name]
    torch.manual_seed(0)
    plain = kind.make()
    planned = copy.deepcopy(plain)
    least, most = least_budget(kind, plain), plain_peak(kind, plain, kind.size)
    budget = int(least + share * (most - least))
    fit = remat.budget(budget)
    for seed in range(4):
        expected = step(kind, plain, seed, kind.size)
        assert_same(step(kind, planned, seed, kind.size, fit), expected)
    report = fit.report()
    assert report.followed >= 2
    assert report.measured_peak <= budget
    assert report.measured_peak == pytest.approx(report.planned_peak, rel=0.01)


@pytest.mark.parametrize("name", ["resnet", "lstm", "gpt2"])
def test_batches_of_changing_size_stay_in_the_budget(name):
    kind = KINDS[name]
    torch.manual_seed(0)
    plain = kind.make()
    planned = copy.deepcopy(plain)
    least, most = least_budget(kind, plain), plain_peak(kind, plain, kind.size)
    fit = remat.budget((least + most) // 2)
    for seed, share in enumerate([1, 0.5, 0.75, 0.5, 0.5, 1, 0.5, 0.75, 0.5, 0.5]):
        size = int(share * kind.size)
        expected = step(kind, plain, seed, size)
        assert_same(step(kind, planned, seed, size, fit), expected)
        assert fit.report().measured_peak <= (least + most) // 2
    assert fit.report().plans == 2  # of the largest, and of the one that came often
    assert fit.report().followed == 8
