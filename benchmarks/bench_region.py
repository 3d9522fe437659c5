#!/usr/bin/env python3
"""What a region costs from Python, over plain and beside torch.utils.checkpoint.

Workloads (choose with --workloads, comma separated; default: all):

    region       relu(Linear(8, 8)) on 4 x 8 floats as one region
    layers       twelve of those in a row, each a region of its own
    mul          one region of 64 multiplications
    view         one region of 64 views
    linear       one region of 16 Linear(64, 64) on 4 x 64 floats
    layer_norm   one region of 16 layer norms of 4 x 64 floats
    dropout      one region of 16 dropouts of 4 x 64 floats

Each is a forward and a backward pass. The contenders run interleaved in one process, on one thread,
in an order drawn anew every round; an overhead is the difference to plain *of the same round*. All
figures are medians over the rounds, with the quartiles as their spread, of the process's CPU time,
which other processes disturb less than wall time. Before anything is timed, every contender must
give plain's loss and gradients bit for bit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from operator import truediv

os.environ["OMP_NUM_THREADS"] = "1"  # read once, when torch is imported

import torch
import torch.utils.checkpoint
from figures import figure_of, row, text_of
from torch import Tensor, nn

import remat

Layer = Callable[[Tensor], Tensor]
Contender = Callable[[Layer, Tensor], Tensor]

CONTENDERS: dict[str, Contender] = {
    "plain": lambda layer, x: layer(x),
    "remat": lambda layer, x: remat.checkpoint(layer, x),
    "torch": lambda layer, x: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False),
}


@dataclass(frozen=True)
class Workload:
    """Regions run one after the other on an input; `operators` in all share the overhead."""

    layers: list[nn.Module]
    features: int
    operators: int = 1

    def run(self, contender: Contender, x: Tensor) -> Tensor:
        y = x
        for layer in self.layers:
            y = contender(layer, y)
        loss = y.sum()
        loss.backward()
        return loss


def small_layer() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU())


class Repeated(nn.Module):
    def __init__(self, op: Layer, times: int) -> None:
        super().__init__()
        self.op, self.times = op, times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = self.op(x)
        return x


def repeated(op: Layer, times: int, features: int) -> Workload:
    return Workload([Repeated(op, times)], features, operators=times)


def workloads() -> dict[str, Workload]:
    torch.manual_seed(0)
    linear, norm, dropout = nn.Linear(64, 64), nn.LayerNorm(64), nn.Dropout(0.1)
    return {
        "region": Workload([small_layer()], features=8),
        "layers": Workload([small_layer() for _ in range(12)], features=8),
        "mul": repeated(lambda x: x * 1.01, 64, features=8),
        "view": repeated(lambda x: x.view(4, 8), 64, features=8),
        "linear": repeated(linear, 16, features=64),
        "layer_norm": repeated(norm, 16, features=64),
        "dropout": repeated(dropout, 16, features=64),
    }


def outcome(workload: Workload, contender: Contender) -> list[Tensor]:
    """Loss and gradients, from the same parameters, input and generator state every time."""
    torch.manual_seed(1)
    x = torch.randn(4, workload.features, requires_grad=True)
    leaves = [x, *(parameter for layer in workload.layers for parameter in layer.parameters())]
    loss = workload.run(contender, x)
    gradients = [leaf.grad for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    return [loss.detach(), *gradients]


def check_bits(name: str, workload: Workload) -> None:
    expected = outcome(workload, CONTENDERS["plain"])
    for contender, function in CONTENDERS.items():
        if not all(map(torch.equal, outcome(workload, function), expected)):
            sys.exit(
                f"bench_region: {contender} differs from plain in workload '{name}': its loss or "
                "a gradient has other bits, so its time says nothing. Run the tests first."
            )


def microseconds_each(workload: Workload, contender: Contender, x: Tensor, steps: int) -> float:
    start = time.process_time_ns()
    for _ in range(steps):
        workload.run(contender, x)
    return (time.process_time_ns() - start) / steps / 1e3


def timed_rounds(workload: Workload, rounds: int, steps: int) -> list[dict[str, float]]:
    """Microseconds of a forward and backward pass, one entry a contender, in every round."""
    x = torch.randn(4, workload.features, requires_grad=True)
    shuffled = random.Random(0)
    order = list(CONTENDERS)
    times = []
    for round_number in range(-2, rounds):  # two to warm up
        gc.collect()
        shuffled.shuffle(order)
        of_round = {name: microseconds_each(workload, CONTENDERS[name], x, steps) for name in order}
        if round_number >= 0:
            times.append(of_round)
    return times


def measure(name: str, workload: Workload, rounds: int) -> dict:
    check_bits(name, workload)
    steps = max(20, 600 // (len(workload.layers) * workload.operators))
    gc.disable()  # as timeit does; collected between rounds
    times = timed_rounds(workload, rounds, steps)
    gc.enable()
    overheads = {
        contender: [(t[contender] - t["plain"]) / workload.operators for t in times]
        for contender in CONTENDERS
        if contender != "plain"
    }
    return {
        "operators": workload.operators,
        "time_us": {name: figure_of([t[name] for t in times]) for name in CONTENDERS},
        "overhead_us": {name: figure_of(values) for name, values in overheads.items()},
        "remat_to_torch": figure_of(list(map(truediv, overheads["remat"], overheads["torch"]))),
    }


def result_row(name: str, result: dict) -> str:
    plain = result["time_us"]["plain"]
    figures = [plain, *result["overhead_us"].values(), result["remat_to_torch"]]
    return row(name, *map(text_of, figures))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", help="names, comma separated; default: all")
    parser.add_argument("--rounds", type=int, default=41, help="default: %(default)s")
    parser.add_argument("--json", help="file to write the figures to")
    args = parser.parse_args()

    known = workloads()
    chosen = args.workloads.split(",") if args.workloads else list(known)
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"no workload named {', '.join(unknown)}; there are: {', '.join(known)}")

    torch.set_num_threads(1)
    print(
        "us of forward and backward: plain, and the overhead over it (per operator where a region "
        "repeats one);\nmedian [quartiles]"
    )
    print(row("workload", " plain", " remat", " torch", " remat / torch"))
    results = {}
    for name in chosen:
        results[name] = measure(name, known[name], args.rounds)
        print(result_row(name, results[name]), flush=True)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
