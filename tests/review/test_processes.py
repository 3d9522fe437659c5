"""Regions among processes, threads and generators."""

import contextlib
import os
import threading
import time

import pytest
import torch
from bitwise import leaf
from torch.utils.data import DataLoader, Dataset

import remat


@pytest.mark.isolated
def test_forked_child_records_nothing():
    with remat.region():
        leaf() * 2
        assert remat._testing.nodes() > 0
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                for _ in range(1000):
                    torch.ones(3).mul(2).add_(1)
                os.write(writer, str(remat._testing.nodes()).encode())
            finally:
                os._exit(0)
        os.wait()
    assert os.read(reader, 100) == b"0"


class NodesPerItem(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        for _ in range(100):
            torch.ones(3) + index
        return torch.tensor(remat._testing.nodes())


@pytest.mark.isolated
def test_loader_worker_records_nothing():
    with remat.region():
        leaf() * 2
        loader = DataLoader(NodesPerItem(), num_workers=1, multiprocessing_context="fork")
        assert [int(nodes) for nodes in loader] == [0, 0, 0, 0]


@pytest.mark.isolated(timeout=120)
def test_handle_dies_while_another_thread_replays_python():
    @torch.library.custom_op("review::slow", mutates_args=())
    def slow(x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.3)  # gives the interpreter lock away in the middle of a replay
        return x * 2

    def fn(x):
        with torch.no_grad():
            mask = slow(torch.ones(4, 4))
        return (x * mask).sin(), (x * 3).exp().sin()

    first, *second = remat.checkpoint(fn, leaf())
    killer = threading.Thread(target=lambda: (time.sleep(0.1), second.clear()))
    killer.start()
    first.sum().backward()
    killer.join()


def test_replay_undoes_no_draw_of_another_thread():
    draws, done, forward = [], threading.Event(), threading.Lock()

    def draw():
        while not done.is_set():
            with forward:  # a draw in the middle of the forward pass would be an error in backward
                draws.append(tuple(torch.rand(4).tolist()))
            time.sleep(0.001)  # or the lock is never free for long

    other = threading.Thread(target=draw)
    other.start()
    try:
        x = leaf(2000, 100)
        for _ in range(20):
            with forward:
                y = remat.checkpoint(lambda x: torch.nn.functional.dropout(x * 2, 0.5).sin(), x)
            y.sum().backward()
    finally:
        done.set()
        other.join()
    assert len(draws) > 0
    assert len(set(draws)) == len(draws)


@pytest.mark.isolated
def test_region_closed_out_of_order_is_an_error():
    def generator():
        with remat.region():
            yield

    outer, inner = generator(), generator()
    next(outer)
    next(inner)
    with pytest.raises(RuntimeError, match="order"):
        outer.close()
    with contextlib.suppress(RuntimeError):  # a poisoned region may say so when it closes, too
        inner.close()
    assert remat._testing.nodes() == 0
    x = leaf()
    remat.checkpoint(lambda x: (x * 2).sin().exp(), x).sum().backward()
    assert torch.isfinite(x.grad).all()
