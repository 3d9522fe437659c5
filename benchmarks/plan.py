#!/usr/bin/env python3
"""Prints what the planner reaches on recorded training steps, beside the proven lower bound.

    benchmarks/plan.py [--remat build/release/app/remat] [TRACE.json ...]

Every row is one run of `remat plan`; its seconds do not count reading the trace.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARES = (90, 75, 60, 50, 40, 35, 30, 25, 20, 15, 10)


def plan(binary: Path, trace: Path, share: float) -> dict:
    """One plan; without a "recompute_percent" where nothing fits."""
    command = [binary, "plan", "--json", "--trace", trace, "--activation-budget", f"{share}%"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    does_not_fit = 4
    if result.returncode not in (0, does_not_fit):
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def row(share: float, figures: dict) -> str:
    if not figures["fits"]:
        least = 100 * figures["least_budget_bytes"] / figures["plain_peak_bytes"]
        return f"| {share} % | least budget {least:.2f} % | | | |"
    best = {p["name"]: p["recompute_percent"] for p in figures["passes"] if "peak_bytes" in p}
    winner = min(best, key=best.get)
    return (
        f"| {share} % | {figures['recompute_percent']:.3f} | {figures['bound_percent']:.3f} "
        f"| {winner} | {figures['plan_seconds']:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--remat", type=Path, default=ROOT / "build/release/app/remat")
    parser.add_argument("traces", nargs="*", type=Path)
    options = parser.parse_args()
    traces = options.traces or sorted((ROOT / "tests/plan/traces").glob("*.json"))
    for trace in traces:
        print(f"\n**{trace.stem}**\n")
        print("| budget | recompute % | bound % | pass | seconds |\n|---|---|---|---|---|")
        for share in SHARES:
            figures = plan(options.remat, trace, share)
            print(row(share, figures), flush=True)
            if not figures["fits"]:
                break


if __name__ == "__main__":
    main()
