"""Whose ``policy=`` it is where torch's checkpoint was replaced: the function's, or remat's."""

import functools

import pytest
import torch
from bitwise import assert_same
from torch import nn
from torch.utils import checkpoint as torch_checkpoint

import remat


def act(observation, policy=None):
    return observation * 2 if policy is None else torch.tanh(policy(observation))


def act_by_any_keyword(observation, **options):
    return act(observation, **options)


@functools.wraps(act)
def act_wrapped(*args, **kwargs):
    return act(*args, **kwargs)


def act_required(observation, policy):
    return act(observation, policy)


class Actor(nn.Module):
    def forward(self, observation, *, policy=None):
        return act(observation, policy)

    def decide(self, observation, policy):
        return act(observation, policy)


class Callable:
    def __call__(self, observation, policy=None):
        return act(observation, policy)


ACTOR = Actor()
FUNCTIONS = {
    "function": act,
    "any keyword": act_by_any_keyword,
    "wrapped": act_wrapped,
    "required": act_required,
    "partial": functools.partial(act, policy=nn.Identity()),
    "module": ACTOR,
    "method": ACTOR.decide,
    "call of a module": functools.partial(nn.Module.__call__, ACTOR),
    "forward of a module": functools.partial(Actor.forward, ACTOR),
    "compiled module": torch.compile(ACTOR, backend="eager"),
    "callable object": Callable(),
}


@pytest.fixture
def installed():
    remat.install()
    yield
    remat.uninstall()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_names_policy_gets_it(name, installed):
    network, x = nn.Linear(4, 4), torch.randn(2, 4)
    result = torch_checkpoint.checkpoint(FUNCTIONS[name], x, use_reentrant=False, policy=network)
    assert_same(result, act(x, network))


@pytest.mark.parametrize("value", [None, "dots_saveable"])
def test_a_function_gets_what_might_be_a_policy_too(value, installed):
    given = []

    def keep(x, policy):
        given.append(policy)
        return x.sin()

    torch_checkpoint.checkpoint(keep, torch.ones(2), use_reentrant=False, policy=value)
    assert given == [value]


def test_a_policy_object_is_remat_s(installed):
    x = torch.ones(2)
    result = torch_checkpoint.checkpoint(act, x, policy=remat.policies.dots_saveable)
    assert_same(result, x * 2)


def kept_by(function, *args):
    remat.reset_stats()
    x = torch.ones(2, 2, requires_grad=True)
    torch_checkpoint.checkpoint(function, x, *args, policy="everything_saveable").sum().backward()
    return remat.stats()["kept_by_reason"]["policy"]


def test_a_text_that_nobody_names_is_remat_s(installed):
    """As gradient_checkpointing_kwargs of transformers gives it to layers with **kwargs."""
    assert kept_by(lambda x, **_: x.sin().exp()) > 0
    assert kept_by(torch.exp) > 0


def test_a_policy_that_was_given_by_position_leaves_the_keyword_to_remat(installed):
    assert kept_by(lambda x, policy: x.sin().exp(), None) > 0


def test_sequential_takes_a_policy(installed):
    x = torch.ones(2, 2, requires_grad=True)
    layers = [torch.sin, torch.exp]
    torch_checkpoint.checkpoint_sequential(layers, 1, x, policy="everything_saveable")
    assert remat.stats()["kept_by_reason"]["policy"] > 0


@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_code_gives_the_function_its_policy(installed, fullgraph):
    network, x = nn.Linear(4, 4), torch.randn(2, 4)

    def step(x):
        return torch_checkpoint.checkpoint(act, x, use_reentrant=False, policy=network)

    assert_same(torch.compile(step, backend="aot_eager", fullgraph=fullgraph)(x), act(x, network))
