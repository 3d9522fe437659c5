"""remat.region: the scope form, and the tape that it leaves to look at."""

import functools
import json
import re
import threading

import pytest
import torch
from bitwise import assert_same, leaf

import remat


def block(x):
    return (x * 2).sin().exp()


def gradient_of_plain(fn):
    x = leaf()
    fn(x).sum().backward()
    return x.grad


def test_scope():
    x = leaf()
    with remat.region():
        y = block(x)
    y.sum().backward()
    assert remat.stats()["ops_replayed"] > 0
    assert_same(x.grad, gradient_of_plain(block))


def test_nested_scopes():
    x = leaf()
    with remat.region():
        with remat.region():
            h = block(x)
        with remat.region():
            y = block(h.sin())
    y.sum().backward()
    assert remat.stats()["ops_replayed"] > 0
    assert_same(x.grad, gradient_of_plain(lambda x: block(block(x).sin())))


@pytest.mark.parametrize("segments", [1, 2, 5, 100])
def test_segments_change_no_bit(segments):
    def deep(x):
        for _ in range(10):
            x = (x * 1.1).sin()
        return x

    x = leaf()
    with remat.region(segments=segments):
        y = deep(x)
    y.sum().backward()
    assert remat.stats()["ops_replayed"] > 0
    assert_same(x.grad, gradient_of_plain(deep))


def test_exception_closes_the_region():
    def fails():
        with remat.region():
            block(leaf())
            raise KeyError("in the middle")

    with pytest.raises(KeyError, match="in the middle"):
        fails()
    assert remat._testing.nodes() == 0
    assert remat._testing.kept_bytes() == 0


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_is_recorded(mode):
    with mode(), remat.region():
        block(torch.ones(4, 4))
        assert remat._testing.nodes() == 0
    assert remat.stats()["ops_recorded"] == 0


def test_nothing_is_recorded_after_the_region():
    with remat.region():
        h = block(leaf())
    recorded = remat.stats()["ops_recorded"]
    block(h)
    assert remat.stats()["ops_recorded"] == recorded > 0


def test_threads_train_at_once():
    gradients = [None] * 4
    gate = threading.Barrier(len(gradients))

    def fn(x, scale):
        return block(block(x * scale))

    def train(index):
        gate.wait()
        for _ in range(20):
            x = leaf()
            with remat.region():
                y = fn(x, index + 1)
            y.sum().backward()
        gradients[index] = x.grad

    threads = [threading.Thread(target=train, args=(index,)) for index in range(len(gradients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, gradient in enumerate(gradients):
        assert_same(gradient, gradient_of_plain(functools.partial(fn, scale=index + 1)))


def test_backward_on_another_thread():
    x = leaf()
    with remat.region():
        y = block(x)
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    assert_same(x.grad, gradient_of_plain(block))


def test_held_bytes_end_with_backward():
    x = leaf() * 1  # a leaf would live anyway and is not counted
    with remat.region() as region:
        y = block(x)
    assert region.held_bytes() > 0
    y.sum().backward()
    assert region.held_bytes() == 0


def test_a_region_is_entered_once():
    region = remat.region()
    with region:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        region.__enter__()


def test_a_region_never_entered_has_no_tape():
    with pytest.raises(RuntimeError, match="never entered"):
        remat.region().tape()


@pytest.mark.parametrize("segments", [0, -1])
def test_less_than_one_segment_is_refused(segments):
    with pytest.raises(ValueError, match="segments"):
        remat.region(segments=segments)


@pytest.fixture
def closed_region():
    x = leaf()
    with remat.region() as region:
        y = block(x)
    yield region
    del y


def ops_in(text):
    """In the order of their first mention."""
    return list(dict.fromkeys(re.findall(r"\b(mul|sin|exp)\b", text)))


def test_tape_as_text_lists_the_ops_in_order(closed_region):
    assert ops_in(closed_region.tape()) == ["mul", "sin", "exp"]


def test_tape_as_dot_is_a_digraph_with_every_op(closed_region):
    dot = closed_region.dot()
    assert dot.startswith("digraph")
    assert dot.count("{") == dot.count("}")
    assert "->" in dot
    assert ops_in(dot) == ["mul", "sin", "exp"]


def test_tape_as_json_names_every_op(closed_region):
    assert ops_in(json.dumps(json.loads(closed_region.json()))) == ["mul", "sin", "exp"]
