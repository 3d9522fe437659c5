"""The race: the recipes train in turns, so that noise on the machine meets all alike.

`remat train` follows alone, run by run: a step of it cannot wait for another process.
"""

import time
from contextlib import ExitStack
from pathlib import Path

import report
from command_line import CommandLine
from progress import Progress
from recipe import RECIPES
from result import Result
from settings import Settings
from worker import Worker

Blocks = list[list[int]]


def race(
    train: Blocks, held_out: Blocks, settings: Settings, folder: Path, progress: Progress
) -> list[Result]:
    """One result a recipe, then one a run of `remat train`; its files are written to `folder`."""
    adapter = folder / "adapter"
    results = _race_of_recipes(train, held_out, settings, adapter, progress)
    cli = CommandLine(train, held_out, settings, adapter, folder, progress)
    plain = cli.fine_tune("none")
    half = plain.activation_peak_bytes // 2
    return [*results, plain, cli.fine_tune("full"), cli.fine_tune("sqrt"), cli.fine_tune(half)]


def _race_of_recipes(
    train: Blocks, held_out: Blocks, settings: Settings, adapter: Path, progress: Progress
) -> list[Result]:
    results = {name: Result(name, len(train[0])) for name in RECIPES}
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(name, _fine_tuning, name, settings)) for name in RECIPES
        ]
        for worker in workers:
            progress.note(f"{worker.name}: held-out loss before training ...")
            results[worker.name].held_out_before = worker.call("held_out_loss", held_out)
        workers[0].call("save_adapter", adapter)
        _train_in_turns(workers, train, results, progress)
        for worker in workers:
            progress.note(f"{worker.name}: held-out loss after training ...")
            _finish(worker, held_out, results[worker.name])
    return list(results.values())


def _fine_tuning(recipe: str, settings: Settings):
    # Imported in the worker alone: torch, transformers and peft take seconds, and the parent needs
    # none of them here.
    from finetuning import FineTuning

    return FineTuning(recipe, settings)


def _train_in_turns(
    workers: list[Worker], train: Blocks, results: dict[str, Result], progress: Progress
) -> None:
    start = time.monotonic()
    for at, block in enumerate(train):
        # Another run goes first every time, so that none always follows the same one.
        turn = at % len(workers)
        for worker in workers[turn:] + workers[:turn]:
            result = results[worker.name]
            result.steps.append(worker.call("step", block))
            progress.note(_step_line(at, len(train), result))
        progress.milestone(_round_line(at, len(train), results, time.monotonic() - start))


def _finish(worker: Worker, held_out: Blocks, result: Result) -> None:
    result.ops_replayed = worker.call("ops_replayed")
    result.adapter_sha256 = worker.call("adapter_sha256")
    result.held_out_after = worker.call("held_out_loss", held_out)


def _step_line(at: int, steps: int, result: Result) -> str:
    step = result.steps[-1]
    speed = result.tokens / step.seconds
    return (
        f"step {at + 1:2}/{steps}  {result.name:5}  loss {step.loss:.4f}  "
        f"{speed:5.1f} tokens/s  peak {report.bytes_text(step.peak_bytes):>11}"
    )


def _round_line(at: int, steps: int, results: dict[str, Result], elapsed: float) -> str:
    losses = ", ".join(sorted({f"{result.losses[-1]:.4f}" for result in results.values()}))
    speeds = "  ".join(
        f"{name} {result.tokens / result.steps[-1].seconds:.1f}" for name, result in results.items()
    )
    minutes = elapsed / (at + 1) * (steps - at - 1) / 60
    return f"step {at + 1:2}/{steps}  loss {losses}  tokens/s: {speeds}  {minutes:.1f} min left"
