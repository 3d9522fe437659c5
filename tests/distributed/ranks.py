"""Two processes that talk by Gloo, started once: a test gives both the same function to run."""

import dataclasses
import os
import tempfile
import traceback
from multiprocessing import connection

import pytest
import torch
import torch.distributed as dist
from torch import multiprocessing

WORLD = 2
SECONDS = 60

spawning = multiprocessing.get_context("spawn")


@dataclasses.dataclass
class Skip:
    why: str


class Ranks:
    """Processes that run functions of test modules, by reference, one after the other."""

    def __init__(self):
        self.pipes, self.processes = [], []

    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        for rank in range(WORLD):
            ours, theirs = spawning.Pipe()
            process = spawning.Process(target=serve, args=(rank, self.folder.name, theirs))
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, function, *arguments):
        """Calls ``function(*arguments)`` on all ranks; fails with their errors."""
        if not self.processes:
            self.start()
        for pipe in self.pipes:
            pipe.send((function, arguments))
        errors = self.answers()
        if all(isinstance(error, Skip) for error in errors.values()):
            pytest.skip(errors[0].why)
        if any(errors.values()):
            self.stop()
            pytest.fail("\n".join(f"rank {rank}: {errors[rank]}" for rank in errors), False)

    def answers(self):
        """By rank None or an error. When one has failed, the other waits for it in vain."""
        errors, waiting, seconds = {}, dict(zip(self.pipes, range(WORLD), strict=True)), SECONDS
        while waiting:
            ready = connection.wait(list(waiting), seconds)
            if not ready:
                return errors | dict.fromkeys(waiting.values(), "still running")
            for pipe in ready:
                rank = waiting.pop(pipe)
                errors[rank] = received(pipe)
                seconds = 2 if errors[rank] else seconds
        return errors

    def stop(self):
        """The next test starts new ones: these may wait for each other."""
        for process in self.processes:
            process.kill()
            process.join()
        if self.processes:
            self.folder.cleanup()
        self.pipes, self.processes = [], []


def received(pipe):
    try:
        return pipe.recv()
    except EOFError:
        return "died"


def serve(rank, folder, pipe):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store = dist.FileStore(os.path.join(folder, "store"), WORLD)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=WORLD)
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            function(*arguments)
            pipe.send(None)
        except pytest.skip.Exception as skipped:
            pipe.send(Skip(str(skipped)))
        except BaseException:
            pipe.send(traceback.format_exc())
