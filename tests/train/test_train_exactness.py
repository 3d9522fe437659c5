"""`remat train` trains to the same bits however it recomputes, and as transformers and peft do."""

import json
import random
import re

import pytest
import torch
from train_runs import (
    VOCABULARY,
    losses,
    metrics,
    padded,
    peft_model,
    rows,
    run,
    write_tokens,
)


@pytest.mark.parametrize("method", ["lora", "full"])
def test_recomputation_changes_no_bit(flags, tmp_path, method):
    found = {}
    for setting in ("none", "full", "sqrt", "every:2", "sqrt + dots_saveable"):
        out = tmp_path / setting.replace(":", "-")
        flags |= {"method": method, "lora_dropout": 0.1, "max_steps": 20}
        run("train", **flags, output_dir=out, activation_checkpointing=setting)
        weights = out / "final" / ("model" if method == "full" else "adapter_model")
        found[setting] = losses(out), weights.with_suffix(".safetensors").read_bytes()
    assert len(found["none"][0]) == 20
    assert all(same == found["none"] for same in found.values())


def one_size(path):
    """Rows of one length: steps of one kind, for one plan."""
    draw = random.Random(5)
    made = [([draw.randrange(VOCABULARY) for _ in range(32)], [1] * 32) for _ in range(8)]
    return write_tokens(path, made)


@pytest.mark.parametrize("budget", ["activation_budget", "memory_budget"])
def test_a_budget_changes_no_bit_and_is_kept(flags, tmp_path, budget):
    flags |= {"data": one_size(tmp_path / "rows.safetensors"), "lora_dropout": 0.1}
    run("train", **flags, output_dir=tmp_path / "plain")
    plain = metrics(tmp_path / "plain")[-1]
    activations = plain["activation_peak_bytes"] * 7 // 10
    weights = plain["peak_memory_bytes"] - plain["activation_peak_bytes"]
    size = activations + (weights if budget == "memory_budget" else 0)
    run("train", **flags, output_dir=tmp_path / "planned", **{budget: size})
    assert losses(tmp_path / "planned") == losses(tmp_path / "plain")
    planned = metrics(tmp_path / "planned")[-1]
    assert planned["ops_replayed"] > 0
    assert 0 < planned["activation_peak_bytes"] <= activations


@pytest.fixture
def budget(flags, tmp_path):
    """As much as plain training takes for micro-batches of two rows."""
    flags["data"] = one_size(tmp_path / "rows.safetensors")
    run("train", **flags, output_dir=tmp_path / "plain")
    return metrics(tmp_path / "plain")[-1]["activation_peak_bytes"]


def test_auto_takes_the_most_rows_that_fit(flags, tmp_path, budget):
    auto = flags | {"activation_budget": budget, "per_device_train_batch_size": "auto"}
    shown = run("train", **auto, output_dir=tmp_path / "auto").stdout
    rows = int(re.search(r"batch +\d+ x (\d+) rows", shown)[1])
    assert 2 < rows < 8
    auto["per_device_train_batch_size"] = rows
    run("train", **auto, output_dir=tmp_path / "fits")
    assert losses(tmp_path / "fits") == losses(tmp_path / "auto")
    auto["per_device_train_batch_size"] = 8
    auto["activation_budget"] = budget // 2
    assert "least that fits" in run("train", **auto, output_dir=tmp_path / "more", code=4).stderr


def test_a_plan_of_a_model_leads_its_training(flags, model, tmp_path, budget):
    plan, out = tmp_path / "plan.json", tmp_path / "out"
    step = {"max_length": 32, "per_device_train_batch_size": 2}
    shown = run("plan", model=model, **step, activation_budget="50%", output=plan)
    assert "recompute" in shown.stdout
    run("train", **flags, activation_budget=budget * 9 // 10, plan=plan, output_dir=out)
    kept = [json.loads(file.read_text())["keep"] for file in (plan, out / "plan.json")]
    assert kept[0] == kept[1]


def test_a_budget_that_nothing_fits_is_an_error_with_code_4(flags, tmp_path):
    done = run("train", **flags, output_dir=tmp_path / "out", activation_budget="20KiB", code=4)
    assert "error[E4" in done.stderr
    assert "least that fits" in done.stderr


def hf_steps(model, batches, rate, steps, warmup):
    """Losses and gradient norms of the loop that transformers' Trainer runs."""
    from transformers import get_scheduler

    trained = [p for p in model.parameters() if p.requires_grad]
    decayed = [p for p in trained if p.dim() > 1]
    others = [p for p in trained if p.dim() <= 1]
    groups = [
        {"params": decayed, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=rate)
    schedule = get_scheduler("cosine", optimizer, warmup, steps)
    model.train()
    for at in range(steps):
        micro = batches[at % len(batches)]
        items = sum(int((labels[:, 1:] != -100).sum()) for _, labels in micro)
        total = 0.0
        for tokens, labels in micro:
            loss = model(input_ids=tokens, labels=labels, num_items_in_batch=items).loss
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trained, 1.0).item()
        rate_now = schedule.get_last_lr()[0]
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        yield total, norm, rate_now


@pytest.mark.parametrize("method", ["lora", "full"])
def test_losses_are_those_of_transformers_and_peft(flags, model, adapter, tmp_path, method):
    flags |= {
        "method": method,
        "shuffle": "false",
        "gradient_accumulation_steps": 2,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 2,
        "weight_decay": 0.1,
        "max_steps": 20,
    }
    if method == "lora":
        flags["adapter"] = adapter
    run("train", **flags, output_dir=tmp_path / "out")

    from transformers import AutoModelForCausalLM

    made = rows()
    micro = [padded(made[at : at + 2]) for at in range(0, len(made), 2)]
    batches = [micro[at : at + 2] for at in range(0, len(micro), 2)]
    theirs = (
        peft_model(model)
        if method == "lora"
        else AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    )
    expected = list(hf_steps(theirs, batches, flags["learning_rate"], 20, 2))
    ours = metrics(tmp_path / "out")
    assert [s["loss"] for s in ours] == pytest.approx([e[0] for e in expected], abs=1e-4)
    assert [s["grad_norm"] for s in ours] == pytest.approx([e[1] for e in expected], rel=1e-2)
    assert [s["learning_rate"] for s in ours] == pytest.approx([e[2] for e in expected])
    assert ours[-1]["loss"] < ours[0]["loss"] - 0.1
