#!/usr/bin/env python3
"""Fine-tunes in byte budgets, beside plain training and torch.utils.checkpoint.

SmolLM2 with LoRA (r 16, dropout 0.05, all linear layers) or all its weights, or a GPT-2 of random
weights with dropout; float32, 1024 tokens, full logits. Every run is a step of the same model on
the same batch, in turns, so that what else the machine does hits all of them; prints CPU time over
plain, measured and planned peaks, and whether the gradients are plain's.

    benchmarks/budget.py [--training lora] [--tokens 1024] [--budgets 1632MiB,1199MiB,646MiB]
    benchmarks/budget.py --training gpt2 --tokens 512 --budgets grid:6    # floor to keep-all
"""

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

import remat

ROOT = Path(__file__).resolve().parent.parent
MIB = 2**20


def make_model(training, folder):
    warnings.simplefilter("ignore", FutureWarning)
    torch.manual_seed(0)
    if training == "gpt2":
        return GPT2LMHeadModel(GPT2Config(use_cache=False, n_positions=2048)).train()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.config.use_cache = False
    return model.train() if training == "full" else with_lora(model)


def with_lora(model):
    lora = LoraConfig(r=16, lora_alpha=16, lora_dropout=0.05, target_modules="all-linear")
    model = get_peft_model(model, lora).train()
    for name, parameter in model.named_parameters():  # zero B would make most gradients zero
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    return model


class Run:
    """One way to train, and what its steps took."""

    def __init__(self, name, model, tokens, budget=None, every=None):
        self.name, self.model, self.tokens, self.every = name, model, tokens, every
        self.fit = None if budget is None else remat.budget(budget)
        self.seconds, self.peaks = [], []

    def step(self, seed):
        self._checkpoint_layers()
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(seed)
        before = remat.memory.live_bytes()
        remat.memory.reset_peak()
        began = time.process_time()
        if self.fit is None:
            self._pass()
        else:
            with self.fit:
                self._pass()
        self.seconds.append(time.process_time() - began)
        self.peaks.append(remat.memory.peak_bytes() - before)
        if self.fit is not None:  # planning is not training
            self.seconds[-1] -= self.fit.report().plan_seconds * (len(self.seconds) == 1)

    def _pass(self):
        self.model(input_ids=self.tokens, labels=self.tokens).loss.backward()

    def _checkpoint_layers(self):
        for index, layer in enumerate(layers_of(self.model)):
            layer.gradient_checkpointing = self.every is not None and index % self.every == 0

    def gradients(self):
        return [p.grad.clone() for p in self.model.parameters() if p.grad is not None]


def layers_of(model):
    inner = model.base_model.model if isinstance(model, PeftModel) else model
    return inner.transformer.h if isinstance(inner, GPT2LMHeadModel) else inner.model.layers


def torch_checkpoint(model):
    def run(function, *args):
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False)

    for layer in layers_of(model):
        layer._gradient_checkpointing_func = run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=str(ROOT / "out/demo/model"))
    parser.add_argument("--training", choices=("lora", "full", "gpt2"), default="lora")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument(
        "--budgets",
        default="1632MiB,1199MiB,797MiB,646MiB",
        help='sizes, or "grid:N": N of them from the least that fits to what plain training takes',
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--every", default="2,1", help="torch.utils.checkpoint on every k-th layer")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", default=str(ROOT / "out/budget.json"))
    options = parser.parse_args()
    remat.memory.install()
    torch.set_num_threads(options.threads)
    model = make_model(options.training, options.model)
    torch_checkpoint(model)
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, model.config.vocab_size, (1, options.tokens), generator=generator)
    runs = [Run("plain", model, tokens)]
    runs += [
        Run(f"torch, every {k}", model, tokens, every=int(k))
        for k in filter(None, options.every.split(","))
    ]
    runs += [Run(f"remat {b}", model, tokens, budget=b) for b in budgets(options.budgets, runs[0])]
    equal = measure(runs, options.rounds)
    report(runs, equal, Path(options.out))


def budgets(text, plain):
    """Sizes. A grid leads from the least that fits to the peak of plain training."""
    if not text.startswith("grid:"):
        return text.split(",")
    count = int(text.removeprefix("grid:"))
    plain.step(0)
    most = plain.peaks.pop()
    plain.seconds.clear()
    try:
        Run("the least", plain.model, plain.tokens, budget="1KiB").step(0)
    except remat.DoesNotFit as error:
        least = error.least_bytes
    return [str(least + (most - least) * i // (count - 1)) for i in range(count)]


def measure(runs, rounds):
    for run in runs:
        run.step(0)  # warm-up; a budget's first step measures
    equal = {}
    for seed in range(1, rounds + 1):
        expected = None
        for run in runs:
            run.step(seed)
            got = run.gradients()
            expected = got if expected is None else expected
            same = all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))
            equal[run.name] = equal.get(run.name, True) and same
    return equal


def text_of(row):
    text = f"{row['run']:24} {row['cpu_seconds']:7.2f} s {row['over_plain_percent']:+6.1f} %"
    text += f"  peak {row['peak_mib']:7.1f} MiB"
    text += f"  gradients {'equal' if row['gradients_equal'] else 'DIFFER'}"
    if "budget_mib" in row:
        text += f"  planned {row['planned_peak_mib']:7.1f} MiB"
        text += f" {row['planned_recompute_percent']:5.1f} %, planning {row['plan_seconds']:.2f} s"
    return text


def report(runs, equal, out):
    # Ratios of steps of the same round: the machine's speed drifts between rounds.
    plain = runs[0].seconds[1:]
    rows = []
    for run in runs:
        over = statistics.median(
            100 * (s / p - 1) for s, p in zip(run.seconds[1:], plain, strict=True)
        )
        row = {
            "run": run.name,
            "cpu_seconds": statistics.median(run.seconds[1:]),
            "over_plain_percent": over,
            "peak_mib": max(run.peaks[1:]) / MIB,
            "first_step_peak_mib": run.peaks[0] / MIB,
            "gradients_equal": equal[run.name],
        }
        if run.fit is not None:
            fit = run.fit.report()
            row |= {
                "budget_mib": fit.budget_bytes / MIB,
                "planned_peak_mib": fit.planned_peak / MIB,
                "planned_recompute_percent": fit.recompute_percent,
                "plan_seconds": fit.plan_seconds,
                "followed": fit.followed,
            }
        rows.append(row)
        print(text_of(row), flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"runs": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
