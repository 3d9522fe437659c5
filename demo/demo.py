"""The demo: a real language model, fine-tuned four ways on the CPU, to the same bits.

Prepares SmolLM2-135M-Instruct and the Jargon File, then trains LoRA adapters with no
checkpointing, with torch.utils.checkpoint, and with remat in two ways. Prints one table and
writes out/demo/report.json. Fails if a loss of one run differs by one bit from the others'.
"""

import argparse
import importlib.util
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

# Set before torch or transformers is imported, here or in a worker. The wait policy: on a busy
# machine, threads that spin at a barrier hold the core that the awaited thread needs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["HF_HUB_OFFLINE"] = "1"

import model
import report
import text
from errors import DemoError
from progress import Progress
from recipe import RECIPES
from result import Result, differences
from settings import Settings
from worker import Worker

TOKENS = 512
HELD_OUT_BLOCKS = 4
SEED = 20
OUT = Path(__file__).resolve().parent.parent / "out" / "demo"


def main() -> int:
    arguments = parse_arguments()
    progress = Progress()
    try:
        return run(arguments.out, arguments.steps, progress)
    except DemoError as error:
        progress.clear()
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("demo: interrupted; the prepared model is kept for the next time", file=sys.stderr)
        return 130


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="steps of training (default 20)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder written to (out/demo)")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    return arguments


def run(out: Path, steps: int, progress: Progress) -> int:
    require_remat()
    train, held_out, settings = prepare(out, steps, progress)
    results = race(train, held_out, settings, progress)
    return conclude(results, out / "report.json", progress)


def require_remat() -> None:
    if importlib.util.find_spec("remat") is None:
        raise DemoError(
            "no Python package remat in this environment: `make demo` builds and installs it"
        )


def prepare(out: Path, steps: int, progress: Progress):
    """The blocks to train on, the held-out blocks, and the settings of all runs."""
    progress.note("preparing the model: about a minute, the first time ...")
    model.prepare(out / "model")
    progress.note("preparing the text ...")
    tokenizer = model.tokenizer(out / "model")
    entries = text.entries(text.jargon(out / "jargon"))
    blocks = text.blocks(entries, tokenizer.encode, tokenizer.eos_token_id, TOKENS)
    train, held_out = text.split(blocks, steps, HELD_OUT_BLOCKS, SEED)

    settings = Settings(out / "model", seed=SEED, threads=len(os.sched_getaffinity(0)))
    progress.say(
        f"model: SmolLM2-135M-Instruct, float32; LoRA r {settings.rank}, alpha {settings.alpha}, "
        f"dropout {settings.dropout}, all linear layers; AdamW, {settings.learning_rate:g}\n"
        f"text:  the Jargon File, {len(entries):,} entries; {steps} steps of {TOKENS} tokens, "
        f"{HELD_OUT_BLOCKS} blocks held out\n"
        f"runs:  {', '.join(RECIPES)}; a process each, {settings.threads} threads, in turns"
    )
    return train, held_out, settings


def race(train, held_out, settings: Settings, progress: Progress) -> list[Result]:
    """Trains with all recipes, one step of each in turn: noise on the machine meets all alike."""
    results = {name: Result(name, TOKENS) for name in RECIPES}
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(name, settings)) for name in RECIPES]
        for worker in workers:
            progress.note(f"{worker.name}: held-out loss before training ...")
            results[worker.name].held_out_before = worker.call("held_out_loss", held_out)
        train_in_turns(workers, train, results, progress)
        for worker in workers:
            progress.note(f"{worker.name}: held-out loss after training ...")
            finish(worker, held_out, results[worker.name])
    return list(results.values())


def train_in_turns(workers, train, results: dict[str, Result], progress: Progress) -> None:
    start = time.monotonic()
    for at, block in enumerate(train):
        # Another run goes first every time, so that none always follows the same one.
        turn = at % len(workers)
        for worker in workers[turn:] + workers[:turn]:
            step = worker.call("step", block)
            results[worker.name].steps.append(step)
            progress.note(step_line(at, train, results[worker.name]))
        progress.milestone(round_line(at, train, results, time.monotonic() - start))


def step_line(at: int, train, result: Result) -> str:
    step = result.steps[-1]
    return (
        f"step {at + 1:2}/{len(train)}  {result.name:5}  loss {step.loss:.4f}  "
        f"{TOKENS / step.seconds:5.1f} tokens/s  peak {report.bytes_text(step.peak_bytes):>11}"
    )


def round_line(at: int, train, results: dict[str, Result], elapsed: float) -> str:
    losses = ", ".join(sorted({f"{result.losses[-1]:.4f}" for result in results.values()}))
    speeds = "  ".join(
        f"{name} {TOKENS / result.steps[-1].seconds:.1f}" for name, result in results.items()
    )
    minutes = elapsed / (at + 1) * (len(train) - at - 1) / 60
    return (
        f"step {at + 1:2}/{len(train)}  loss {losses}  tokens/s: {speeds}  {minutes:.1f} min left"
    )


def finish(worker: Worker, held_out, result: Result) -> None:
    result.ops_replayed = worker.call("ops_replayed")
    result.adapter_sha256 = worker.call("adapter_sha256")
    result.held_out_after = worker.call("held_out_loss", held_out)


def conclude(results: list[Result], path: Path, progress: Progress) -> int:
    report.write(path, report.to_json(results))
    progress.say("\n" + report.table(results) + "\n")
    for sentence in report.sentences(results):
        progress.say(sentence)
    different = differences(results)
    if different:
        raise DemoError("the runs do not agree:\n  " + "\n  ".join(different))
    progress.say(
        f"All {len(results)} runs: equal losses at all {len(results[0].steps)} steps, equal "
        "held-out losses and equal trained weights, bit for bit."
    )
    progress.say(f"{path} has the numbers.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
