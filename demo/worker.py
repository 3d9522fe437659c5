"""A worker: one object in a process of its own, driven from here call by call.

The process starts with fresh memory, a fresh random state and torch as it was installed, whatever
other workers do. It works only while a call lasts, so workers can take turns on one machine.
"""

import contextlib
import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection

from errors import DemoError


class Worker:
    """Forwards calls to the object that `make(*arguments)` returns in another process."""

    def __init__(self, name: str, make: Callable, *arguments):
        spawn = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(theirs, make, arguments), name=name, daemon=True
        )
        self._process.start()
        theirs.close()  # else the pipe stays open when the worker dies, and we wait for ever

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self._process.terminate()
        self._process.join()

    def call(self, method: str, *arguments):
        """Calls a method of the object and waits for its result."""
        # A worker that failed before takes no question, but has left the reason in the pipe.
        with contextlib.suppress(OSError):
            self._pipe.send((method, arguments))
        try:
            result, failure = self._pipe.recv()
        except (EOFError, OSError):
            raise DemoError(f"run '{self.name}' {self._cause_of_death()}") from None
        if failure:
            raise DemoError(f"run '{self.name}' failed:\n{failure}")
        return result

    def _cause_of_death(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "was killed, most likely for want of memory: the demo needs about 5 GiB"
        return f"ended early, with exit code {code}; what it printed above says why"


def _serve(pipe: Connection, make: Callable, arguments: tuple) -> None:
    # Ctrl-C reaches the whole process group; the parent alone answers it, and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # An exit, not a death: libraries release what would otherwise be reported as leaked.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        served = make(*arguments)
        while True:
            method, arguments = pipe.recv()
            pipe.send((getattr(served, method)(*arguments), None))
    except (EOFError, BrokenPipeError):
        pass  # the parent is gone
    except Exception:  # told to the parent, which raises
        pipe.send((None, traceback.format_exc()))
