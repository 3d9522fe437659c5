"""Copies and pickles of models that were prepared: the hooks go along, budgets start afresh."""

import copy
import io
import multiprocessing
import pickle

import pytest
import torch
from bitwise import assert_same
from torch import nn

import remat


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(9)])


def train(net):
    net.zero_grad()
    net(torch.ones(64, 64)).square().mean().backward()
    return [p.grad for p in net.parameters()]


def saved_and_loaded(net):
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(net):
    return pickle.loads(pickle.dumps(net))


COPIES = pytest.mark.parametrize("copied", [copy.deepcopy, pickled, saved_and_loaded])


def recorded_by(net):
    remat.reset_stats()
    train(net)
    return remat.stats()["ops_recorded"]


@COPIES
@pytest.mark.parametrize("policy", [None, "modules(0.0)", remat.policies.dots_saveable])
def test_segments_go_with_a_copy(copied, policy):
    net = make_net()
    handle = remat.segment(list(net), policy=policy)
    other = copied(net)
    handle.remove()
    assert recorded_by(net) == 0
    assert recorded_by(other) > 0
    assert_same(train(other), train(make_net()))


@COPIES
def test_the_handle_goes_along_and_removes_its_own(copied):
    net = make_net()
    other, handle = copied((net, remat.segment(list(net))))
    handle.remove()
    assert recorded_by(net) > 0
    assert recorded_by(other) == 0


@COPIES
def test_a_budget_goes_with_a_copy_and_starts_afresh(copied):
    net = make_net()
    fit = remat.enable(net, "10MiB")
    train(net)
    other = copied(net)
    for _ in range(3):
        assert_same(train(other), train(make_net()))
    with pytest.raises(ValueError, match="budget already"):
        remat.enable(other, "10MiB")
    remat.disable(other)
    assert recorded_by(other) == 0
    remat.disable(net)
    assert fit.report().steps == 1


def test_a_copied_budget_has_the_same_size_and_no_step():
    fit = remat.budget("10MiB")
    net = make_net()
    for each in (fit, copy.deepcopy(fit), pickled(fit)):
        assert each.report().steps == 0
        with each:
            train(net)
        assert each.report().budget_bytes == 10 << 20


@pytest.mark.parametrize("prepare", [remat.segment, lambda net: remat.enable(net, "10MiB")])
def test_the_state_dict_is_the_plain_model_s(prepare):
    net = make_net()
    prepare(net)
    assert_same(net.state_dict(), make_net().state_dict())
    make_net().load_state_dict(net.state_dict())


def test_a_layer_s_copy_brings_no_other_layer():
    net = make_net()
    remat.segment(list(net))
    assert len(pickle.dumps(net[0])) < 2 * len(pickle.dumps(make_net()[0]))
    layer = copy.deepcopy(net[0])
    layer(torch.ones(64, 64)).sum().backward()
    assert remat._testing.nodes() == 0


def test_a_policy_of_a_function_is_copied_and_not_pickled():
    net = make_net()
    remat.segment(list(net), policy=remat.Policy(lambda facts: True))
    assert recorded_by(copy.deepcopy(net)) > 0
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(net)


def train_there(net, results):
    results.put([gradient.numpy() for gradient in train(net)])


@pytest.mark.parametrize("prepare", [remat.segment, lambda net: remat.enable(net, "10MiB")])
def test_a_spawned_process_trains_the_model(prepare):
    net = make_net()
    prepare(net)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=train_there, args=(net, results))
    child.start()
    gradients = [torch.from_numpy(gradient) for gradient in results.get(timeout=60)]
    child.join()
    assert_same(gradients, train(make_net()))
