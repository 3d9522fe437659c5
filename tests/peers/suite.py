"""Runs somebody else's pytest suite with a checkpoint of our choice."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "build" / "peers"


def run(implementation, folder, arguments, environment=None, timeout=600):
    """The last row of each test (see plugin.py), by name. A crash or a hang fails the test that was
    running; the others are run again without it."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = pathlib.Path(scratch) / "rows"
        rows.touch()
        variables = {
            **os.environ,
            "PEER_CHECKPOINT": implementation,
            "PEER_ROWS": str(rows),
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "plugin"]
        command += ["-c", os.devnull, f"--rootdir={folder}", *arguments]
        while True:
            why = _run_once(command, folder, variables, timeout)
            last = {row["test"]: row for row in map(json.loads, rows.read_text().splitlines())}
            running = [row for row in last.values() if row["outcome"] == "running"]
            if not running:
                return last
            for row in running:
                ended = {"outcome": "failed", "why": why, "reached": True}
                with rows.open("a") as file:
                    print(json.dumps(row | ended), file=file)


def _run_once(command, folder, variables, timeout):
    try:
        child = subprocess.run(
            command, cwd=folder, env=variables, timeout=timeout, capture_output=True
        )
    except subprocess.TimeoutExpired:
        return f"still running after {timeout} s"
    return f"crashed, exit {child.returncode}"


def short(test):
    """The test's name without its file."""
    return test.split("::", 1)[-1]


def outcome(row):
    if row["outcome"] == "passed" and not row["reached"]:
        return "passed without a checkpoint"
    return row["outcome"]


def verdict(rows, failed, at_least):
    """Prints what failed and why; 1 if anything did, or if fewer tests ran than there are."""
    for test, why in failed.items():
        print(f"    FAIL {test}: {why}")
    return 1 if failed or len(rows) < at_least else 0
