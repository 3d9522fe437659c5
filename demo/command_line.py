"""Runs `remat train`, the fine-tuner without Python, on the demo's blocks."""

import hashlib
import json
import subprocess
from pathlib import Path

import numpy as np
from errors import DemoError
from progress import Progress
from result import Result, Step
from safetensors.numpy import save_file
from settings import Settings

BINARY = Path(__file__).resolve().parent.parent / "build" / "release" / "app" / "remat"

Blocks = list[list[int]]


class CommandLine:
    """Trains one block a step, in their order, always from the same adapter of peft."""

    def __init__(
        self,
        train: Blocks,
        held_out: Blocks,
        settings: Settings,
        adapter: Path,
        folder: Path,
        progress: Progress,
    ):
        self._folder = folder
        self._progress = progress
        self._steps, self._tokens = len(train), len(train[0])
        self._train = _write_tokens(folder / "train.safetensors", train)
        self._held_out = _write_tokens(folder / "held_out.safetensors", held_out)
        self._settings = settings
        self._common = {
            "model": settings.model,
            "adapter": adapter,
            "max-length": self._tokens,
            "threads": settings.threads,
        }
        self._held_out_before = self._evaluate()

    def fine_tune(self, memory: str | int) -> Result:
        """By a way of checkpointing ("none", "full", "sqrt"), or within a budget in bytes."""
        in_budget = isinstance(memory, int)
        result = Result(f"cli {'budget' if in_budget else memory}", self._tokens, "remat train")
        result.held_out_before = self._held_out_before
        out = self._folder / result.name.replace(" ", "-")
        flag = "activation-budget" if in_budget else "activation-checkpointing"
        self._run("train", self._recipe() | {flag: memory, "output-dir": out}, result.name)
        _read(out, result)
        self._progress.milestone(
            f"{result.name}: loss {result.last_loss:.4f}, {result.tokens_per_second:.1f} tokens/s"
        )
        return result

    def _recipe(self) -> dict:
        return {
            "data": self._train,
            "eval-data": self._held_out,
            "shuffle": "false",
            "learning-rate": self._settings.learning_rate,
            "lr-scheduler-type": "constant",
            "weight-decay": 0.01,  # torch.optim.AdamW's own, which the other program uses
            "max-grad-norm": 0,
            "max-steps": self._steps,
            "save-steps": 0,
            "seed": self._settings.seed,
            "overwrite": "true",
        }

    def _evaluate(self) -> float:
        lines = self._run("eval", {"data": self._held_out, "json": "true"}, "cli: held-out loss")
        return json.loads("\n".join(lines))["eval_loss"]

    def _run(self, command: str, flags: dict, name: str) -> list[str]:
        """The lines that it printed; each is shown while it runs."""
        words = [f"--{name}={value}" for name, value in (self._common | flags).items()]
        lines = []
        with subprocess.Popen(
            [str(BINARY), command, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            for line in process.stdout:
                lines.append(line.rstrip())
                self._progress.note(f"{name}: {lines[-1]}")
        if process.returncode != 0:
            raise DemoError(
                f"remat {command} ended with {process.returncode}:\n" + "\n".join(lines)
            )
        return lines


def _read(out: Path, result: Result) -> None:
    for line in (out / "metrics.jsonl").read_text().splitlines():
        fact = json.loads(line)
        if fact["event"] == "step":
            result.steps.append(
                Step(
                    fact["loss"],
                    fact["step_time_s"],
                    fact["activation_peak_bytes"],
                    fact["after_forward_bytes"],
                )
            )
            result.ops_replayed = fact["ops_replayed"]
        elif fact["event"] == "eval":
            result.held_out_after = fact["eval_loss"]
    weights = (out / "final" / "adapter_model.safetensors").read_bytes()
    result.adapter_sha256 = hashlib.sha256(weights).hexdigest()


def _write_tokens(path: Path, blocks: Blocks) -> Path:
    """A row a block; every token is trained on."""
    path.parent.mkdir(parents=True, exist_ok=True)
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
