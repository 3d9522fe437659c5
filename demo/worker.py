"""A worker: one fine-tuning in a process of its own, driven from here call by call.

A process starts with fresh memory, a fresh random state and torch as it was installed, whatever
the other runs did. It works only while a call lasts, so workers can take turns on one machine.
"""

import multiprocessing
import signal
import traceback
from multiprocessing.connection import Connection

from errors import DemoError
from settings import Settings


class Worker:
    """Forwards calls to a FineTuning in another process."""

    def __init__(self, recipe: str, settings: Settings):
        spawn = multiprocessing.get_context("spawn")
        self.name = recipe
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(theirs, recipe, settings), name=recipe, daemon=True
        )
        self._process.start()
        theirs.close()  # else the pipe stays open when the worker dies, and we wait for ever

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self._process.terminate()
        self._process.join()

    def call(self, method: str, *arguments):
        """Calls a method of the FineTuning and waits for its result."""
        try:
            self._pipe.send((method, arguments))
            result, failure = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise DemoError(f"run '{self.name}' {self._cause_of_death()}") from error
        if failure:
            raise DemoError(f"run '{self.name}' failed:\n{failure}")
        return result

    def _cause_of_death(self) -> str:
        self._process.join()
        code = self._process.exitcode
        if code == -signal.SIGKILL:
            return "was killed, most likely for want of memory: the demo needs about 6 GiB"
        return f"ended early, with exit code {code}; what it printed above says why"


def _serve(pipe: Connection, recipe: str, settings: Settings) -> None:
    # Ctrl-C reaches the whole process group; the parent alone answers it, and ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        # Here, not above: the parent needs none of torch, transformers and peft for its part.
        from finetuning import FineTuning

        finetuning = FineTuning(recipe, settings)
        while True:
            method, arguments = pipe.recv()
            pipe.send((getattr(finetuning, method)(*arguments), None))
    except EOFError:
        pass  # the parent is gone
    except Exception:  # pylint: disable=broad-except  # told to the parent, which raises
        pipe.send((None, traceback.format_exc()))
