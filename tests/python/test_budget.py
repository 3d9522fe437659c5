"""Training in a byte budget from Python."""

import copy
import json

import pytest
import torch
from bitwise import assert_same
from live import live_bytes
from torch import nn

import remat
from remat._budget import as_bytes

MIB = 2**20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 256)
        self.down = nn.Linear(256, 64)
        self.norm = nn.LayerNorm(64)

    def forward(self, x):
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + nn.functional.dropout(self.down(hidden), 0.1, self.training)


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(*[Block() for _ in range(8)])


def train(net, steps, around=None, rows=512):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        x = torch.randn(rows, 64)
        optimizer.zero_grad()
        if around is None:
            loss = net(x).square().mean()
            loss.backward()
        else:
            with around:
                loss = net(x).square().mean()
                loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def peak_of(run):
    remat.memory.install()
    before = live_bytes()
    remat.memory.reset_peak()
    run()
    return remat.memory.peak_bytes() - before


@pytest.mark.parametrize(
    ("size", "expected"),
    [(5, 5), ("5", 5), ("2GiB", 2**31), ("2G", 2**31), ("6000MB", 6 * 10**9), ("1.5 KiB", 1536)],
)
def test_sizes(size, expected):
    assert as_bytes(size) == expected


@pytest.mark.parametrize("size", ["", "GiB", "2 gigs", "-1", 0, "0MiB"])
def test_what_is_no_size(size):
    with pytest.raises(ValueError, match="remat:"):
        as_bytes(size)


def test_losses_and_weights_are_those_of_plain_training():
    plain, planned = make_net(), make_net()
    fit = remat.budget("10MiB")
    assert_same(train(planned, 4, fit), train(plain, 4))
    assert_same(list(planned.parameters()), list(plain.parameters()))
    assert fit.report().followed == 3


def test_the_peak_is_within_the_budget_and_as_planned():
    net = make_net()
    plain = peak_of(lambda: train(make_net(), 1))
    fit = remat.budget(plain * 6 // 10)
    train(net, 3, fit)
    report = fit.report()
    assert report.measured_peak <= report.budget_bytes
    assert report.measured_peak == pytest.approx(report.planned_peak, rel=0.01)
    assert 0 < report.recompute_percent < 50


def test_a_memory_budget_counts_what_lives_before_the_step():
    net = make_net()
    live = remat.memory.live_bytes()
    fit = remat.budget(memory=live + 12 * MIB)
    train(net, 2, fit)
    assert fit.report().budget_bytes <= 12 * MIB


def test_a_model_trains_in_its_budget():
    plain, planned = make_net(), make_net()
    fit = remat.enable(planned, "10MiB")
    assert_same(train(planned, 4), train(plain, 4))
    remat.disable(planned)
    assert fit.report().followed == 3


def test_evaluation_begins_no_step():
    net = make_net()
    fit = remat.enable(net, "10MiB")
    with torch.no_grad():
        net(torch.randn(4, 64))
    remat.disable(net)
    assert fit.report().steps == 0


def test_a_copy_of_the_model_can_be_made():
    net = make_net()
    remat.enable(net, "10MiB")
    other = copy.deepcopy(net)
    assert_same(train(other, 1), train(make_net(), 1))
    remat.disable(net)


def test_a_model_has_one_budget():
    net = make_net()
    remat.enable(net, "10MiB")
    with pytest.raises(ValueError, match="budget already"):
        remat.enable(net, "10MiB")
    remat.disable(net)
    remat.disable(net)


def test_the_optimizer_s_memory_is_none_of_a_step_s():
    net = nn.Sequential(*[nn.Linear(512, 512) for _ in range(8)])
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    fit = remat.enable(net, "12MiB")  # 8 MiB of gradients; the optimizer takes 8 MiB of temporaries
    for _ in range(5):
        optimizer.zero_grad()
        net(torch.randn(64, 512)).square().mean().backward()
        optimizer.step()
    remat.disable(net)
    assert fit.report().followed == 4
    assert fit.report().measured_peak == pytest.approx(fit.report().planned_peak, rel=0.01)


def test_a_budget_that_nothing_fits_names_the_least():
    with pytest.raises(remat.DoesNotFit, match=r"least that fits is .* MiB") as error:
        train(make_net(), 2, remat.budget("500KiB"))
    fit = remat.budget(error.value.least_bytes)
    train(make_net(), 2, fit)
    assert fit.report().followed == 1


def test_a_plan_serves_another_run():
    first = remat.budget("10MiB")
    train(make_net(), 2, first)
    second = remat.budget("10MiB", plans=[first.plan()])
    plain, planned = make_net(), make_net()
    assert_same(train(planned, 3, second), train(plain, 3))
    assert second.report().plans == 0
    assert json.loads(second.plan())["keep"] == json.loads(first.plan())["keep"]


def test_a_plan_serves_other_sizes_where_it_fits():
    first = remat.budget("10MiB")
    train(make_net(), 2, first)
    roomy = remat.budget("1GiB", plans=[first.plan()])
    train(make_net(), 2, roomy, rows=256)
    assert (roomy.report().plans, roomy.report().followed) == (0, 1)
    tight = remat.budget("6MiB", plans=[first.plan()])
    train(make_net(), 2, tight, rows=512)
    assert (tight.report().plans, tight.report().followed) == (1, 1)


def test_times_are_averaged_over_steps():
    fit = remat.budget("10MiB")
    train(make_net(), 1, fit)
    first = json.loads(fit.trace())
    train(make_net(), 5, fit)
    averaged = json.loads(fit.trace())
    assert [op["name"] for op in averaged["ops"]] == [op["name"] for op in first["ops"]]
    assert [op["us"] for op in averaged["ops"]] != [op["us"] for op in first["ops"]]
    assert fit.report().followed == 5


def test_one_kind_of_budget():
    with pytest.raises(ValueError, match="either"):
        remat.budget()
    with pytest.raises(ValueError, match="either"):
        remat.budget("1GiB", memory="1GiB")
