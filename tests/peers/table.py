"""All suites, with remat and with torch.utils.checkpoint, as one table.

    python table.py                         # all of it, about half an hour on two cores
    python table.py --only sweeps reports   # groups of suites
    python table.py --quick                 # fewer samples, architectures and programs

Fails if remat fails in anything that its documentation does not except. A new suite is a function
of the implementation's name and of whether to be quick that yields lines, in the list SUITES.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "peers"), str(TESTS / "reports")]

import hf_strict  # noqa: E402
import module_sweep  # noqa: E402
import opinfo_sweep  # noqa: E402
import own_tests  # noqa: E402
import run_all  # noqa: E402
import sweep  # noqa: E402
import torch_tests  # noqa: E402
import transformers_tests  # noqa: E402
from torch_tests import class_of  # noqa: E402

IMPLEMENTATIONS = ("remat", "torch")


@dataclasses.dataclass
class Line:
    """One line of the table for one implementation."""

    title: str
    passed: int
    total: int
    failures: dict  # why, by name; what the documentation excepts is not among them

    def __str__(self):
        excepted = self.total - self.passed - len(self.failures)
        note = f", {excepted} excepted" if excepted > 0 else ""
        return f"{self.passed} of {self.total}{note}"


def reports(implementation, _):
    paths = sorted(run_all.CASES.glob("[0-9]*.py"))
    misses = {path.stem: run_all.run_case(path, implementation) for path in paths}
    failures = {name: "; ".join(why) for name, why in misses.items() if why}
    yield Line("public bug reports", len(paths) - len(failures), len(paths), failures)


def tests_of_torch(implementation, _):
    rows = torch_tests.run(implementation)
    known = torch_tests.classes()
    for name, outcomes in sorted(torch_tests.counts(rows).items()):
        if name not in "BCMOR":
            continue
        of_class = {test: row for test, row in rows.items() if class_of(test, known) == name}
        own = torch_tests.failures(of_class)
        title = f"PyTorch's tests, {name}: {torch_tests.CLASSES[name].split(',')[0]}"
        yield Line(title, outcomes["passed"], outcomes["passed"] + outcomes["failed"], own)


def tests_of_transformers(implementation, _):
    rows = transformers_tests.run(implementation)
    failures = transformers_tests.failures(rows)
    outcomes = [transformers_tests.outcome(row) for row in rows.values()]
    total = sum(outcome != "skipped" for outcome in outcomes)
    passed = sum(outcome.startswith("passed") for outcome in outcomes)
    yield Line("transformers' own tests", passed, total, failures)


def of_sweep(title, rows):
    """The line of what was right, and that of how many of these cases hold few enough bytes."""
    counts = sweep.summary(rows)
    total = counts["passed"] + counts["failed"]
    yield Line(title, counts["passed"], total, sweep.failures(rows))
    heavy = sweep.failures(rows, "heavy")
    cases = counts["cases passed"]
    yield Line(f"{title}, bytes behind forward", cases - len(heavy), cases, heavy)


def models(implementation, quick):
    names = hf_strict.names(every=not quick)
    rows = hf_strict.sweep(implementation, names)
    yield from of_sweep("transformers' models, bit for bit", rows)


def sweeps(implementation, quick):
    for dtype in opinfo_sweep.DTYPES:
        rows = opinfo_sweep.sweep(implementation, dtype, samples=1 if quick else 6)
        yield from of_sweep(f"PyTorch's operators, {dtype}", rows)
    yield from of_sweep("PyTorch's modules", module_sweep.sweep(implementation))


def tests_of_rules(implementation, _):
    rows = own_tests.run(implementation)
    for group, outcomes in own_tests.counts(rows).items():
        total = outcomes["passed"] + outcomes["failed"]
        yield Line(group, outcomes["passed"], total, own_tests.failures(rows, group))


def programs(implementation, quick):
    """Random programs have no counterpart in torch: half of their regions have no function."""
    if implementation != "remat":
        return
    count = 500 if quick else int(os.environ.get("REMAT_RANDOM_PROGRAMS", 10_000))
    parts = [count] if quick else [count // 2, count - count // 2]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = enumerate(pool.map(run_programs, parts))
    failures = {f"process {part}": why for part, why in found if why}
    yield Line("random programs", 0 if failures else count, count, failures)


def run_programs(count):
    """The first of them that fails, made small; empty if none does."""
    test = TESTS / "python" / "test_random_programs.py"
    environment = {**os.environ, "REMAT_RANDOM_PROGRAMS": str(count)}
    command = [sys.executable, "-m", "pytest", "-q", str(test)]
    child = subprocess.run(command, env=environment, capture_output=True, text=True)
    return child.stdout[-4000:] if child.returncode else ""


SUITES = (reports, tests_of_torch, tests_of_transformers, models, sweeps, tests_of_rules, programs)


def collect(suites, quick):
    """Lines by title and implementation. Both run at once: most suites are one process."""
    table = {}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for suite in suites:
            runs = [pool.submit(timed, suite, name, quick) for name in IMPLEMENTATIONS]
            for name, run in zip(IMPLEMENTATIONS, runs, strict=True):
                for line in run.result():
                    table.setdefault(line.title, {})[name] = line
    return table


def timed(suite, implementation, quick):
    start = time.monotonic()
    lines = list(suite(implementation, quick))
    seconds = time.monotonic() - start
    print(f"{suite.__name__}, {implementation}: {seconds:.0f} s", file=sys.stderr)
    return lines


def show(table):
    width = max(map(len, table))
    print(f"{'':{width}}  {'remat':>24}  {'torch':>24}")
    for title, lines in table.items():
        cells = (str(lines.get(name, "-")) for name in IMPLEMENTATIONS)
        print(f"{title:{width}}  " + "  ".join(f"{cell:>24}" for cell in cells))


def main():
    parser = argparse.ArgumentParser()
    names = [suite.__name__ for suite in SUITES]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    # Before two at once look for what it brings.
    subprocess.run([TESTS / "peers" / "fetch.sh"], check=True, stdout=subprocess.DEVNULL)
    table = collect([suite for suite in SUITES if suite.__name__ in options.only], options.quick)
    show(table)
    failures = {
        f"{title}, {name}": why
        for title, lines in table.items()
        if "remat" in lines
        for name, why in lines["remat"].failures.items()
    }
    for name, why in failures.items():
        print(f"FAIL {name}: {why}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
