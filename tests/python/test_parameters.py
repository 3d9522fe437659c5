"""Parameters are known by tensor: their storage may go and come, their content may not change."""

import torch
from bitwise import assert_replayed_as_plain, assert_same, assert_same_or_loud, leaf, plain, run
from torch import nn

import remat

WIDTH = 160  # 160 x 160 floats are more than what a region copies


def step_that_changes(weight, change):
    """Adds a weight, which autograd does not save, before and after it changes in the region."""
    original = weight.detach().clone()

    def fn(x):
        y = (x + weight).exp().sin()
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(weight):
            change(weight)
        return (y + weight).exp().sin() * 1

    def step(checkpoint):
        with torch.no_grad():
            weight.copy_(original)
        x = leaf(WIDTH, WIDTH)
        checkpoint(fn, x).sum().backward()
        return [x.grad, weight.detach().clone()]

    return step


def rows(weight):
    weight[3, 5] = 7.0  # the guard's samples do not see it


def add(weight):
    weight.index_put_((torch.tensor([3]), torch.tensor([5])), torch.tensor(7.0))


def test_a_few_elements_that_change_inside_are_no_gathering():
    for change in (rows, add, lambda weight: weight.mul_(2), lambda weight: weight.normal_()):
        for trained in (True, False):
            weight = nn.Parameter(torch.randn(WIDTH, WIDTH), requires_grad=trained)
            step = step_that_changes(weight, change)
            assert_same_or_loud(step, step)


def test_filling_a_parameter_with_what_it_held_is_no_change():
    weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
    whole = weight.detach().clone()
    assert_replayed_as_plain(step_that_changes(weight, lambda weight: weight.copy_(whole)))


def test_a_view_of_the_storage_that_a_parameter_had_is_not_the_parameter():
    weight = nn.Parameter(torch.randn(WIDTH, WIDTH))
    before, after = weight.data, torch.randn(WIDTH, WIDTH)

    def step(checkpoint):
        weight.data = before
        view = weight.view(-1)
        weight.data = after
        x = leaf(WIDTH, WIDTH)
        checkpoint(lambda x: (x + view.view(WIDTH, WIDTH)).exp().sin() * 1, x).sum().backward()
        return x.grad

    assert_replayed_as_plain(step)


def test_casts_of_frozen_weights_are_recomputed():
    linear = nn.Linear(WIDTH, WIDTH).requires_grad_(False)

    def step(checkpoint):
        x = leaf(4, WIDTH)
        with torch.autocast("cpu", torch.bfloat16):
            y = checkpoint(lambda x: linear(x).sin().exp() * 1, x)
        y.sum().backward()
        return x.grad

    expected = run(step, plain)
    remat.reset_stats()
    assert_same(run(step, remat.checkpoint), expected)
    assert remat.stats()["kept_by_reason"]["policy"] == 0


def test_a_frozen_parameter_with_a_graph_is_a_result_like_any_other():
    def fn(x):
        weight = nn.Parameter(torch.ones(WIDTH, WIDTH), requires_grad=False)
        weight.mul_(x)
        return (weight.exp() + weight).sin() * 1

    def step(checkpoint):
        x = leaf(WIDTH, WIDTH)
        checkpoint(fn, x).sum().backward()
        return x.grad

    assert_replayed_as_plain(step)
