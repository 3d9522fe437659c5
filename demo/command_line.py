"""Runs `remat train`, the fine-tuner without Python, on the demo's blocks."""

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
from errors import DemoError
from result import Result, Step
from safetensors.numpy import save_file
from settings import Settings

BINARY = Path(__file__).resolve().parent.parent / "build" / "release" / "app" / "remat"
RECIPES = ("none", "full", "sqrt")

Blocks = list[list[int]]


def fine_tune(
    recipe: str, train: Blocks, held_out: Blocks, settings: Settings, adapter: Path, folder: Path
) -> Result:
    """Trains from the adapter of peft in `adapter`, one block a step, in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    blocks = _write_tokens(folder / "train.safetensors", train)
    others = _write_tokens(folder / "valid.safetensors", held_out)
    result = Result(f"cli {recipe}", len(train[0]))
    result.held_out_before = _evaluate(settings, adapter, others)
    _run(_train_command(recipe, len(train), settings, adapter, blocks, others, folder / recipe))
    return _read(result, folder / recipe)


def _train_command(
    recipe: str,
    steps: int,
    settings: Settings,
    adapter: Path,
    train: Path,
    held_out: Path,
    out: Path,
) -> list[str]:
    flags = {
        "model": settings.model,
        "adapter": adapter,
        "data": train,
        "eval-data": held_out,
        "shuffle": "false",
        "activation-checkpointing": recipe,
        "learning-rate": settings.learning_rate,
        "lr-scheduler-type": "constant",
        # torch.optim.AdamW's own, which the other runs use.
        "weight-decay": 0.01,
        "max-grad-norm": 0,
        "max-length": 1 << 20,
        "max-steps": steps,
        "save-steps": 0,
        "seed": settings.seed,
        "threads": settings.threads,
        "output-dir": out,
        "overwrite": "true",
    }
    return ["train", *_words(flags)]


def _evaluate(settings: Settings, adapter: Path, data: Path) -> float:
    flags = {
        "model": settings.model,
        "adapter": adapter,
        "data": data,
        "max-length": 1 << 20,
        "threads": settings.threads,
    }
    return json.loads(_run(["eval", "--json", *_words(flags)]))["eval_loss"]


def _words(flags: dict) -> list[str]:
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def _run(arguments: list[str]) -> str:
    if not BINARY.exists():
        raise DemoError(f"no {BINARY}: `make build` builds it")
    done = subprocess.run([str(BINARY), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise DemoError(f"remat {arguments[0]} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def _read(result: Result, out: Path) -> Result:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        if line["event"] == "step":
            result.steps.append(
                Step(
                    line["loss"],
                    line["step_time_s"],
                    line["activation_peak_bytes"],
                    line["after_forward_bytes"],
                )
            )
            result.ops_replayed = line["ops_replayed"]
        elif line["event"] == "eval":
            result.held_out_after = line["eval_loss"]
    weights = (out / "final" / "adapter_model.safetensors").read_bytes()
    result.adapter_sha256 = hashlib.sha256(weights).hexdigest()
    return result


def _write_tokens(path: Path, blocks: Blocks) -> Path:
    """A row a block; every token is trained on."""
    flat = [token for block in blocks for token in block]
    save_file(
        {
            "tokens": np.array(flat, np.int32),
            "mask": np.ones(len(flat), np.uint8),
            "offsets": np.cumsum([0, *map(len, blocks)]).astype(np.int64),
        },
        path,
    )
    return path
