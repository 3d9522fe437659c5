"""How the tests of `remat train` run it, and what they train."""

import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("REMAT_BINARY", ROOT / "build" / "release" / "app" / "remat"))
VOCABULARY = 151
STEPS = 8


def rows(count=12, seed=3):
    """Tokens and marks of rows of different lengths; the first half of a row is a prompt."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        length = draw.randint(8, 20)
        tokens = [draw.randrange(VOCABULARY) for _ in range(length)]
        made.append((tokens, [0] * (length // 2) + [1] * (length - length // 2)))
    return made


def write_tokens(path, made):
    lengths = [len(tokens) for tokens, _ in made]
    save_file(
        {
            "tokens": np.array([t for tokens, _ in made for t in tokens], np.int32),
            "mask": np.array([m for _, marks in made for m in marks], np.uint8),
            "offsets": np.cumsum([0, *lengths]).astype(np.int64),
        },
        path,
    )
    return path


def peft_model(model):
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(2)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    config = LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(base, config)
    for name, parameter in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return adapted


def command(*arguments, **flags):
    words = [str(BINARY), *map(str, arguments)]
    for name, value in flags.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def run(*arguments, code=0, **flags):
    assert BINARY.exists(), f"no {BINARY}: make build"
    done = subprocess.run(
        command(*arguments, **flags), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def metrics(out, event="step"):
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def losses(out):
    return [line["loss"] for line in metrics(out)]


def padded(some):
    width = max(len(tokens) for tokens, _ in some)
    tokens = torch.zeros(len(some), width, dtype=torch.long)
    labels = torch.full((len(some), width), -100)
    for at, (row, marks) in enumerate(some):
        tokens[at, : len(row)] = torch.tensor(row)
        for place, (token, mark) in enumerate(zip(row, marks, strict=True)):
            if mark:
                labels[at, place] = token
    return tokens, labels
