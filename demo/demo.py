"""The demo: a real language model, fine-tuned seven ways on the CPU, to the same bits.

Prepares SmolLM2-135M-Instruct and the Jargon File, then trains LoRA adapters: by transformers and
peft with no checkpointing, with torch.utils.checkpoint and with remat; by `remat train`, without
Python, with no checkpointing, in two ways with it, and in a budget of half the bytes. Prints one
table and writes out/demo/report.json. Fails if a loss of one run differs by one bit from those of
the other runs of its program.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

import model
import report
import text
from command_line import BINARY
from errors import DemoError
from progress import Progress
from race import race
from recipe import RECIPES
from result import Result, by_program, differences
from settings import Settings

TOKENS = 256
HELD_OUT_BLOCKS = 2
SEED = 20
OUT = Path(__file__).resolve().parent.parent / "out" / "demo"


def main() -> int:
    arguments = parse_arguments()
    set_environment()
    progress = Progress()
    try:
        return run(arguments.out, arguments.steps, progress)
    except DemoError as error:
        progress.clear()
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        progress.clear()
        print("demo: interrupted; a model already prepared is kept", file=sys.stderr)
        return 130


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=16, help="steps of training (default 16)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder written to (out/demo)")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error("--steps must be at least 1")
    return arguments


def set_environment() -> None:
    """Read by libraries when they are imported, here and in the workers."""
    # On a busy machine, threads that spin at a barrier hold the core that the awaited one needs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TQDM_DISABLE"] = "1"


def run(out: Path, steps: int, progress: Progress) -> int:
    require_remat()
    train, held_out, settings = prepare(out, steps, progress)
    results = race(train, held_out, settings, out / "runs", progress)
    return conclude(results, out / "report.json", progress)


def require_remat() -> None:
    """Fails now rather than after minutes of preparing and training."""
    if importlib.util.find_spec("remat") is None:
        raise DemoError("no Python package remat in this environment: `make demo` builds it")
    if not BINARY.exists():
        raise DemoError(f"no {BINARY}: `make build` builds it")


def prepare(out: Path, steps: int, progress: Progress):
    """The blocks to train on, the held-out blocks, and the settings of all runs."""
    progress.milestone("preparing the model and the text: about a minute, the first time ...")
    model.prepare(out / "model")
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
        f"runs:  {', '.join(RECIPES)} by transformers + peft, in turns; then `remat train` (cli), "
        f"which has no Python; a process each, {settings.threads} threads"
    )
    return train, held_out, settings


def conclude(results: list[Result], path: Path, progress: Progress) -> int:
    """Reports what was measured, then fails if the runs do not agree."""
    report.write(path, report.to_json(results))
    progress.say("\n" + report.table(results) + "\n")
    for sentence in report.sentences(results):
        progress.say(sentence)
    different = differences(results)
    if different:
        raise DemoError("the runs do not agree:\n  " + "\n  ".join(different))
    for program, runs in by_program(results).items():
        progress.say(
            f"All {len(runs)} runs of {program}: equal losses at all {len(runs[0].steps)} steps, "
            "equal held-out losses and equal trained weights, bit for bit."
        )
    progress.say(f"{path} has the numbers.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
