"""What `remat train` writes is what transformers, peft and its siblings read."""

import json

import pytest
import torch
from train_runs import (
    padded,
    rows,
    run,
)


def mean_loss(model, made):
    total = items = 0
    model.eval()
    with torch.no_grad():
        for row in made:
            tokens, labels = padded([row])
            count = int((labels[:, 1:] != -100).sum())
            total += model(input_ids=tokens, labels=labels).loss.item() * count
            items += count
    return total / items


def test_peft_loads_the_adapter(flags, model, data, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    run("train", **flags, output_dir=tmp_path, use_rslora="true", lora_alpha=3)
    final = tmp_path / "final"
    ours = run("eval", "--json", model=model, data=data, adapter=final)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    before = mean_loss(base, rows())
    theirs = mean_loss(PeftModel.from_pretrained(base, final), rows())
    assert json.loads(ours.stdout)["eval_loss"] == pytest.approx(theirs, abs=1e-5)
    assert theirs < before - 0.05


def test_transformers_loads_the_model(flags, data, tmp_path):
    from transformers import AutoModelForCausalLM

    run("train", **flags, output_dir=tmp_path, method="full")
    final = tmp_path / "final"
    ours = run("eval", "--json", model=final, data=data)
    theirs = mean_loss(AutoModelForCausalLM.from_pretrained(final), rows())
    assert json.loads(ours.stdout)["eval_loss"] == pytest.approx(theirs, abs=1e-5)


def test_the_trained_model_is_inspected(flags, model, data, tmp_path):
    run("train", **flags, output_dir=tmp_path)

    def kind(path):
        return json.loads(run("inspect", path, "--json").stdout)

    assert kind(model)["model_type"] == "llama"
    assert kind(data)["rows"] == 12
    assert kind(tmp_path / "final")["config"]["r"] == 16
    assert kind(tmp_path / "latest")["complete"] is True
