"""Threads, exceptions, long runs, forks and the end of the process."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest
import torch
from bitwise import assert_same, leaf, plain

import remat
from remat import _C


def block(x):
    return torch.nn.functional.dropout((x * 2).sin().exp(), 0.5).tanh() * 1


@pytest.fixture(autouse=True)
def nothing_is_left():
    """After each test no region is open and nothing is held."""
    yield
    gc.collect()
    assert remat._testing.nodes() == 0
    assert _C.total_held_bytes() == 0


def in_threads(count, function):
    errors = []

    def run(index):
        try:
            function(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def gradient(checkpoint, x):
    x = x.detach().requires_grad_()
    checkpoint(lambda x: (x * 2).sin().exp().tanh() * 1, x).sum().backward()
    return x.grad


@pytest.mark.isolated
def test_many_regions_on_many_threads():
    inputs = [torch.randn(8, 8) for _ in range(8)]
    expected = [gradient(plain, x) for x in inputs]

    def train(index):
        for _ in range(50):
            assert_same(gradient(remat.checkpoint, inputs[index]), expected[index])

    in_threads(8, train)


@pytest.mark.isolated
def test_backward_on_other_threads_than_forward():
    inputs = [leaf(8, 8).detach().requires_grad_() for _ in range(8)]
    losses = [remat.checkpoint(lambda x: (x * 2).sin().exp(), x).sum() for x in inputs]
    in_threads(8, lambda index: losses[index].backward())
    for x in inputs:
        assert_same(x.grad, inputs[0].grad)


class ReadsInPython(torch.autograd.Function):
    """Asks for its saved tensor with the interpreter's lock."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + 0 * ctx.saved_tensors[0]


@pytest.mark.isolated
def test_a_gather_in_python_while_another_thread_asks_the_same_tape():
    whole = torch.ones(160, 160)
    weight = torch.nn.Parameter(whole, requires_grad=False)

    class Gathered:
        def __enter__(self):
            time.sleep(0.3)  # the other thread gets the interpreter, and asks
            weight.data = whole

        def __exit__(self, *_):
            weight.data = torch.empty(0)

    handle = remat.gather(lambda parameter: Gathered() if parameter is weight else None)

    def fn(x):
        return ((x + weight).exp().sin() * 1).sum(), ReadsInPython.apply((x * 2).exp()).sum()

    losses = remat.checkpoint(fn, leaf(160, 160))
    weight.data = torch.empty(0)
    in_threads(2, lambda index: (time.sleep(0.1 * index), losses[index].backward()))
    handle.remove()
    weight.data = whole


def draws_slowly(library):
    """A region whose backward draws in Python, and lets go of the interpreter meanwhile."""

    @torch.library.custom_op(
        f"{library}::noise", mutates_args=(), tags=[torch.Tag.nondeterministic_seeded]
    )
    def noise(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)
        return torch.rand_like(x)

    remat.replayable(noise)
    return remat.checkpoint(lambda x: (x * noise(x.detach())).sin().sum(), leaf())


@pytest.mark.isolated
def test_a_draw_in_python_while_another_thread_draws_again(always_recompute):
    def fn(x):
        return ReadsInPython.apply((x * torch.rand_like(x)).exp()).sum()

    losses = [draws_slowly("robustness_threads"), remat.checkpoint(fn, leaf())]
    in_threads(2, lambda index: (time.sleep(0.1 * index), losses[index].backward()))
    assert remat.stats()["ops_replayed"] > 0


def failing(x):
    y = block(x)
    with remat.region():
        y = block(y)
        raise KeyError(y.shape)


def test_an_exception_in_forward_leaves_nothing():
    for _ in range(3):
        with pytest.raises(KeyError):
            remat.checkpoint(failing, leaf())
        assert remat._testing.nodes() == 0
    assert_same(gradient(remat.checkpoint, leaf()), gradient(plain, leaf()))


def test_an_exception_in_a_tensor_hook_leaves_nothing():
    x = leaf()
    hook = leaf(8, 8)  # noqa: F841  (alive, as others are)

    def fail(_):
        raise KeyError("hook")

    def fn(x):
        y = (x * 2).sin().exp()
        y.register_hook(fail)
        return y.sin().exp()

    with pytest.raises(KeyError):
        remat.checkpoint(fn, x).sum().backward()
    assert_same(gradient(remat.checkpoint, leaf()), gradient(plain, leaf()))


def test_an_exception_in_a_replay_leaves_nothing_and_another_attempt_succeeds():
    @torch.library.custom_op("robust::fails_once", mutates_args=())
    def fails_once(x: torch.Tensor) -> torch.Tensor:
        if torch._C._current_graph_task_id() != -1 and failures:
            raise KeyError(failures.pop())
        return x.clone()

    remat.replayable(fails_once)
    failures = ["replay"]
    x = leaf()
    y = remat.checkpoint(lambda x: x * fails_once(x.detach()).exp() * 1, x)
    with pytest.raises(KeyError):
        y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert_same(x.grad, x.detach().exp())


def test_no_reference_cycle():
    def train():
        module = torch.nn.Linear(4, 4)
        y = remat.checkpoint(lambda x: ReadsInPython.apply(module(x).exp()).sin(), leaf())
        return weakref.ref(module), weakref.ref(y)

    gc.disable()
    try:
        assert [found() for found in train()] == [None, None]
        assert _C.total_held_bytes() == 0
    finally:
        gc.enable()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.isolated(timeout=120)
def test_ten_thousand_steps_without_growth():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout())
    x = leaf()

    def steps(count):
        for _ in range(count):
            with remat.region():
                y = remat.checkpoint(model, x)
                y = ReadsInPython.apply(y.sin())
            y.sum().backward()
            model.zero_grad()
            x.grad = None

    steps(1000)
    before = resident_bytes()
    steps(10000)
    assert resident_bytes() - before < 2**20  # 100 bytes a step


@pytest.mark.isolated
def test_a_forked_child_trains():
    expected = gradient(remat.checkpoint, leaf())
    region = remat.region()
    region.__enter__()  # the child inherits it, and never closes it
    child = os.fork()
    if child == 0:
        same = torch.equal(gradient(remat.checkpoint, leaf()), expected)
        os._exit(0 if same else 1)
    region.__exit__(None, None, None)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.isolated
def test_fork_while_other_threads_train():
    # libtorch builds statics at the first call of an operator: a child that is forked just then
    # waits for ever, with remat or without.
    gradient(remat.checkpoint, leaf(16, 16))
    with remat.region():
        torch.mul(leaf(), 2)
    done = threading.Event()

    def train():
        while not done.is_set():
            gradient(remat.checkpoint, leaf(16, 16))
            remat._C.total_held_bytes()

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        child = os.fork()
        if child == 0:
            with remat.region():
                leaf() * 2
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    done.set()
    for thread in threads:
        thread.join()


@pytest.mark.isolated
def test_fork_while_a_replay_draws_in_python():
    loss = draws_slowly("robustness_fork")
    state = torch.get_rng_state()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    time.sleep(0.1)
    child = os.fork()
    if child == 0:
        same = torch.equal(torch.get_rng_state(), state)
        remat.checkpoint(lambda x: (x * torch.rand_like(x)).sin(), leaf()).sum().backward()
        os._exit(0 if same else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "ending",
    [
        "",
        "import os; os._exit(0)",
        "raise SystemExit(0)",
        "import threading; threading.Thread(target=lambda: y.sum().backward()).start()",
    ],
)
def test_the_process_ends_with_graphs_and_regions_alive(ending):
    program = f"""
        import torch, remat
        remat.gather(lambda parameter: None)
        x = torch.randn(4, 4, requires_grad=True)
        with remat.verify():
            y = remat.checkpoint(lambda x: (x * 2).sin().exp(), x)
        z = remat.checkpoint(torch.nn.Linear(4, 4), y)
        z.sum().backward(retain_graph=True)
        region = remat.region()
        region.__enter__()
        w = (z * 2).exp()
        {ending}
    """
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (child.returncode, child.stderr) == (0, "")
