"""Runs many named entries in worker processes, so that a crash or a hang costs one entry.

A worker reads names from its input and prints a row of JSON for each, in order. The first name
without a row is the one that killed it; another worker goes on behind it.
"""

import concurrent.futures
import contextlib
import faulthandler
import json
import subprocess
import sys
import time

PATIENCE = 300  # seconds for an entry


def drive(command, names, jobs=2, folder=None):
    """The rows by name, of `jobs` workers that run `command` in the folder."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        parts = pool.map(lambda part: _drive_one(command, names[part::jobs], folder), range(jobs))
        return {name: row for part in parts for name, row in part.items()}


def _drive_one(command, names, folder):
    rows = {}
    while len(rows) < len(names):
        todo = names[len(rows) :]
        worker = subprocess.run(
            command, input="\n".join(todo), capture_output=True, text=True, cwd=folder
        )
        lines = [line for line in worker.stdout.splitlines() if line.startswith('{"entry"')]
        rows.update(zip(todo, map(json.loads, lines), strict=False))
        if len(lines) < len(todo):
            entry = Row(todo[len(lines)])
            entry.failed["process"] = f"exit {worker.returncode}: {worker.stderr.strip()[-500:]}"
            rows[entry.entry] = vars(entry)
    return rows


def work(run):
    """The worker: `run(name)` makes the row of each name it is given."""
    for name in sys.stdin.read().split("\n"):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        with contextlib.redirect_stdout(sys.stderr):
            row = run(name)
        print(json.dumps(vars(row)), flush=True)
    faulthandler.cancel_dump_traceback_later()


class Row:
    """What became of one entry. A case that says nothing about the checkpoint (plain raises, or
    does not repeat its own bits) is skipped."""

    def __init__(self, entry):
        self.entry = entry
        self.passed = 0
        self.recomputed = 0  # of the passed, those for which work was repeated in backward
        self.failed = {}  # why, by case
        self.heavy = {}  # why, by passed case that holds too many bytes behind forward
        self.skipped = {}

    def skip(self, case, why):
        self.skipped[case] = why

    def judge(self, case, misses, recomputed, heavy=None):
        if misses:
            self.failed[case] = "; ".join(misses)
            return
        self.passed += 1
        self.recomputed += recomputed
        if heavy:
            self.heavy[case] = heavy


def failures(rows, kind="failed"):
    """Why, by entry and case; for kind "heavy" of those that hold too many bytes."""
    return {
        f"{name}, {case}": why
        for name, row in sorted(rows.items())
        for case, why in row[kind].items()
    }


def summary(rows):
    cases = sum(row["passed"] for row in rows.values())
    failed = [row for row in rows.values() if row["failed"]]
    passed = [row for row in rows.values() if row["passed"] and not row["failed"]]
    return {
        "entries": len(rows),
        "passed": len(passed),
        "failed": len(failed),
        "skipped": len(rows) - len(passed) - len(failed),
        "cases passed": cases,
        "cases failed": sum(len(row["failed"]) for row in failed),
        "cases recomputed": sum(row["recomputed"] for row in rows.values()),
        "cases too heavy": sum(len(row["heavy"]) for row in rows.values()),
    }


def report(title, make_rows):
    """Makes the rows, prints their summary and every failure; how many entries failed."""
    start = time.monotonic()
    rows = make_rows()
    counts = summary(rows)
    seconds = time.monotonic() - start
    print(f"{title}: {', '.join(f'{key} {n}' for key, n in counts.items())}; {seconds:.0f} s")
    for case, why in failures(rows).items():
        print(f"    FAIL {case}: {why[:300]}")
    for case, why in failures(rows, "heavy").items():
        print(f"    HEAVY {case}: {why}")
    return counts["failed"] + counts["cases too heavy"]
