"""The demo's worker: calls reach an object in another process, and every failure comes back."""

import importlib
import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "demo"))

from errors import DemoError
from worker import Worker


def test_calls_reach_one_object_and_return():
    with Worker("torch", list) as worker:
        worker.call("append", "a")
        worker.call("append", "b")
        assert worker.call("index", "b") == 1


def test_object_lives_in_another_process():
    with Worker("torch", importlib.import_module, "os") as worker:
        assert worker.call("getpid") != os.getpid()


def test_exception_of_a_call_comes_back_with_its_traceback():
    with (
        Worker("torch", list) as worker,
        pytest.raises(DemoError, match=r"run 'torch' failed:\n(.|\n)*ValueError"),
    ):
        worker.call("index", "absent")


def test_exception_at_the_start_comes_back_at_the_first_call():
    with (
        Worker("full", importlib.import_module, "no_such_module") as worker,
        pytest.raises(DemoError, match="No module named 'no_such_module'"),
    ):
        worker.call("step")


def test_death_is_told_with_the_exit_code():
    with (
        Worker("sqrt", importlib.import_module, "os") as worker,
        pytest.raises(DemoError, match="run 'sqrt' ended early, with exit code 3"),
    ):
        worker.call("_exit", 3)


def test_kill_is_told_as_want_of_memory():
    with (
        Worker("none", importlib.import_module, "signal") as worker,
        pytest.raises(DemoError, match="want of memory"),
    ):
        worker.call("raise_signal", 9)
