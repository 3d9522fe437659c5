#!/usr/bin/env python3
"""Fine-tunes SmolLM2 by `remat train` and by transformers + peft, and prints the ratio.

LoRA (r 16, no dropout, all linear layers), float32, AdamW, the same tokens and the same initial
adapter. The two programs take turns, a few steps each, so that what else the machine does hits
both; the first step of a turn faults the weights in and is left out. Activation bytes are those of
tensors alive beyond what was alive before the step.

    benchmarks/train.py [--tokens 1024] [--checkpointing none,full] [--rounds 3]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "build/release/app/remat"
MIB = 2**20
LEARNING_RATE = 5e-4


def prepare(arguments, folder):
    """Token file and initial adapter, which both programs read."""
    import numpy as np
    import torch
    from safetensors.numpy import save_file

    model = peft_model(arguments.model)
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():  # zero B would make most gradients zero
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    model.save_pretrained(folder / "adapter")
    rows, tokens = arguments.steps, arguments.tokens
    generator = np.random.default_rng(0)
    ids = generator.integers(0, model.config.vocab_size, rows * tokens, dtype=np.int32)
    offsets = np.arange(0, rows * tokens + 1, tokens, dtype=np.int64)
    mask = np.ones(rows * tokens, np.uint8)
    save_file({"tokens": ids, "mask": mask, "offsets": offsets}, folder / "tokens.safetensors")


def peft_model(source):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    warnings.simplefilter("ignore", FutureWarning)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    model.config.use_cache = False
    return get_peft_model(model, LoraConfig(r=16, lora_alpha=16, target_modules="all-linear"))


def steps_of_peft(arguments, folder):
    """Runs in a process of its own; prints a JSON object a step, in the names of metrics.jsonl."""
    import torch
    from safetensors.torch import load_file

    import remat

    remat.memory.install()
    torch.set_num_threads(arguments.threads)
    model = peft_model(arguments.model).train()
    model.load_adapter(folder / "adapter", "default", is_trainable=True)
    if arguments.checkpointing == "full":
        model.activation_checkpointing_enable({"use_reentrant": False})
        model.disable_input_require_grads()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=LEARNING_RATE)
    rows = load_file(folder / "tokens.safetensors")["tokens"].view(-1, arguments.tokens)
    for row in rows.long():
        print(json.dumps(step_of_peft(model, optimizer, row[None])), flush=True)


def step_of_peft(model, optimizer, tokens):
    import remat

    before = remat.memory.live_bytes()
    remat.memory.reset_peak()
    start = time.perf_counter()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    peak = remat.memory.peak_bytes() - before
    optimizer.step()
    optimizer.zero_grad()
    seconds = time.perf_counter() - start
    return {"loss": loss.item(), "step_time_s": seconds, "activation_peak_bytes": peak}


def run_peft(arguments, checkpointing, folder):
    command = [sys.executable, __file__, "--peft-steps", str(folder)]
    command += ["--checkpointing", checkpointing, "--model", arguments.model]
    command += ["--tokens", str(arguments.tokens), "--threads", str(arguments.threads)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_remat(arguments, checkpointing, folder):
    flags = {
        "model": arguments.model,
        "adapter": folder / "adapter",
        "data": folder / "tokens.safetensors",
        "activation-checkpointing": checkpointing,
        "max-length": arguments.tokens,
        "max-steps": arguments.steps,
        "learning-rate": LEARNING_RATE,
        "lr-scheduler-type": "constant",
        "weight-decay": 0.01,
        "max-grad-norm": 0,
        "shuffle": "false",
        "save-steps": 0,
        "threads": arguments.threads,
        "output-dir": folder / "out",
        "overwrite": "true",
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run([BINARY, "train", *words], check=True, stdout=subprocess.DEVNULL)
    lines = (folder / "out/metrics.jsonl").read_text().splitlines()
    return [fact for fact in map(json.loads, lines) if fact["event"] == "step"]


def measure(arguments, checkpointing, folder):
    """Per program, its steps, turn after turn."""
    programs = {"transformers + peft": run_peft, "remat train": run_remat}
    steps = {name: [] for name in programs}
    for turn in range(arguments.rounds):
        order = list(programs)[:: -1 if turn % 2 else 1]
        for name in order:
            taken = programs[name](arguments, checkpointing, folder)
            steps[name].append(taken)
    return steps


def figures(turns, tokens):
    later = [step for steps in turns for step in steps[1:]]
    seconds = statistics.median(step["step_time_s"] for step in later)
    return {
        "tokens_per_second": tokens / seconds,
        "activation_peak_bytes": max(step["activation_peak_bytes"] for step in later),
        "losses": [step["loss"] for step in turns[0]],
    }


def report(checkpointing, steps, tokens):
    facts = {name: figures(turns, tokens) for name, turns in steps.items()}
    for name, fact in facts.items():
        print(
            f"{checkpointing:5} {name:20} {fact['tokens_per_second']:8.1f} tokens/s  "
            f"peak {fact['activation_peak_bytes'] / MIB:8.1f} MiB"
        )
    peft, ours = facts["transformers + peft"], facts["remat train"]
    apart = max(abs(a - b) for a, b in zip(ours["losses"], peft["losses"], strict=True))
    print(
        f"{checkpointing:5} remat train / peft    "
        f"{ours['tokens_per_second'] / peft['tokens_per_second']:7.3f} x speed      "
        f"{ours['activation_peak_bytes'] / peft['activation_peak_bytes']:.3f} x peak, "
        f"losses at most {apart:.1e} apart"
    )
    return facts


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(ROOT / "out/demo/model"))
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--checkpointing", default="none,full")
    parser.add_argument("--steps", type=int, default=4, help="of a turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", default=str(ROOT / "out/train.json"))
    parser.add_argument("--peft-steps", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    if arguments.peft_steps:
        return steps_of_peft(arguments, arguments.peft_steps)
    if not BINARY.exists():
        sys.exit(f"train.py: {BINARY} is not built: `make build` builds it")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(arguments, folder)
        facts = {
            way: report(way, measure(arguments, way, folder), arguments.tokens)
            for way in arguments.checkpointing.split(",")
        }
    Path(arguments.out).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
