"""Runs the cases against one checkpoint implementation, each in a process of its own.

    python run_all.py                        # remat:checkpoint
    python run_all.py torch                  # torch.utils.checkpoint, use_reentrant=False
    python run_all.py torch:reentrant        # the same, use_reentrant=True
    python run_all.py plain                  # no checkpoint: checks the cases themselves
    python run_all.py module:function [--only 03,19]

An implementation is called as function(fn, *args, **kwargs). A case is a file with
run(checkpoint) -> dict and EXPECT (see judge.py). It has its own process, so that a leaked mode or
a crash does not touch the next one.
"""

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
CASES = HERE / "cases"
sys.path.append(str(HERE.parent))

from implementations import call_plainly, find  # noqa: E402


def run_case(path, implementation="remat:checkpoint", timeout=120):
    """Misses of one case, which runs in a process of its own; a crash or a hang is a miss too."""
    command = [sys.executable, __file__, implementation, "--one", str(path)]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return [f"still running after {timeout} s"]
    lines = child.stdout.splitlines()
    if child.returncode != 0 or not lines:
        return [f"exit {child.returncode}: {child.stderr.strip()[-2000:]}"]
    return json.loads(lines[-1])


def run_here(path, implementation):
    import torch
    from judge import judge

    torch.set_num_threads(1)
    case = load(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = case.run(call_plainly)
        try:
            got = case.run(find(implementation))
        except Exception as error:
            return [f"raised {type(error).__name__}: {error}"]
    expect = dict(case.EXPECT)
    if implementation == "plain":
        expect.pop("at_most", None)  # plain is what those bounds improve on
    return judge(expect, got, plain)


def load(path):
    spec = importlib.util.spec_from_file_location(f"case_{pathlib.Path(path).stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat:checkpoint")
    parser.add_argument("--only", default="", help="numbers, comma separated")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_here(options.one, options.implementation)))
        return 0
    only = tuple(options.only.split(",")) if options.only else ("",)
    failed = 0
    paths = [path for path in sorted(CASES.glob("[0-9]*.py")) if path.name.startswith(only)]
    for path in paths:
        start = time.monotonic()
        misses = run_case(path, options.implementation)
        failed += bool(misses)
        print(
            f"{'FAIL' if misses else 'pass'} {path.stem} ({time.monotonic() - start:.1f} s)",
            flush=True,
        )
        print("".join(f"     - {miss[-200:]}\n" for miss in misses), end="")
    print(f"{options.implementation}: {len(paths) - failed} of {len(paths)} pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
