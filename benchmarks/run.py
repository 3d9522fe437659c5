#!/usr/bin/env python3
"""Runs the C++ benchmarks, then the Python ones, and prints a table of each: `make bench`.

Writes every figure to out/bench.json. Times are CPU times on one thread; they depend on the machine
and on what else it does, so quote the ratios, which come from interleaved runs. To run single
workloads, see build/release/benchmarks/remat_benchmarks --help and bench_region.py --help.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from figures import figure_of, row, text_of

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BINARY = ROOT / "build/release/benchmarks/remat_benchmarks"
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def run_to_json(command: list[str | Path], **options) -> dict:
    """Runs `command`, which writes JSON to the file that replaces `{}` in its arguments."""
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        arguments = [str(part).replace("{}", str(file)) for part in command]
        if code := subprocess.run(arguments, env=one_thread, **options).returncode:
            sys.exit(f"run.py: {Path(arguments[0]).name} ended with {code}: {' '.join(arguments)}")
        return json.loads(file.read_text(encoding="utf-8"))


def run_cpp(binary: Path) -> dict:
    """Per workload and variant, microseconds over the repetitions; and the overhead over plain."""
    if not binary.exists():
        sys.exit(f"run.py: {binary} is not built. `make build` builds it; --binary names another.")
    report = run_to_json(
        [binary, "--benchmark_out={}", "--benchmark_out_format=json"], stdout=subprocess.DEVNULL
    )
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in report["benchmarks"]:
        if run["run_type"] == "iteration":
            workload, variant = run["run_name"].split("/")[:2]
            times[workload][variant].append(run["cpu_time"] * MICROSECONDS[run["time_unit"]])
    return {workload: compared(variants) for workload, variants in sorted(times.items())}


def compared(variants: dict[str, list[float]]) -> dict:
    result: dict = {"time_us": {name: figure_of(times) for name, times in variants.items()}}
    if "plain" in variants:
        plain = statistics.median(variants["plain"])
        result["overhead_us"] = {
            name: figure_of([time - plain for time in times])
            for name, times in variants.items()
            if name != "plain"
        }
    return result


def run_python(rounds: int) -> dict:
    script = HERE / "bench_region.py"
    return run_to_json([sys.executable, script, "--json", "{}", "--rounds", str(rounds)])


def cpp_rows(results: dict) -> list[str]:
    rows = [row("workload", " plain", " remat")]
    for workload, result in results.items():
        times = result["time_us"]
        if "overhead_us" in result:
            (overhead,) = result["overhead_us"].values()
            rows.append(row(workload, text_of(times["plain"]), text_of(overhead)))
        else:
            rows += [row(f"{workload} {name}", "", text_of(time)) for name, time in times.items()]
    return rows


def machine() -> dict:
    import torch

    return {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--binary", type=Path, default=BINARY, help="the C++ benchmarks")
    parser.add_argument("--rounds", type=int, default=41, help="of the Python benchmarks")
    parser.add_argument("--out", type=Path, default=ROOT / "out/bench.json")
    args = parser.parse_args()

    report = {"machine": machine()}  # first, for the load before our own
    report["cpp"] = run_cpp(args.binary)
    print("C++, us: plain, and the overhead over it; median [quartiles]")
    print("\n".join(cpp_rows(report["cpp"])), flush=True)
    print("\nPython")
    report["python"] = run_python(args.rounds)

    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nWritten to {args.out}")


if __name__ == "__main__":
    main()
