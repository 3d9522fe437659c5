"""The demo's fine-tuning, on a tiny model: the runs agree to the bit, and remat does replay."""

import sys
from pathlib import Path

import pytest
import transformers

sys.path.append(str(Path(__file__).parents[2] / "demo"))

from progress import Progress
from race import race
from result import differences
from settings import Settings


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    # Nine layers, for three segments of sqrt; wide enough that activations outweigh random states.
    config = transformers.LlamaConfig(
        vocab_size=256,
        hidden_size=192,
        intermediate_size=384,
        num_hidden_layers=9,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    train = [[(7 * at + step) % 256 for at in range(512)] for step in range(2)]
    settings = Settings(folder, rank=4, threads=1)
    runs = race(train, train[:1], settings, folder / "runs", Progress())
    return {run.name: run for run in runs}


def test_all_runs_agree_to_the_bit(results):
    recipes = ["none", "torch", "full"]
    assert list(results) == [*recipes, "cli none", "cli full", "cli sqrt", "cli budget"]
    assert differences(list(results.values())) == []


@pytest.mark.parametrize("name", ["none", "cli none"])
def test_training_changes_the_held_out_loss(results, name):
    assert results[name].held_out_after < results[name].held_out_before


def test_both_programs_start_from_the_same_model(results):
    cli, peft = results["cli none"], results["none"]
    assert cli.held_out_before == pytest.approx(peft.held_out_before, abs=1e-4)


def test_only_the_runs_of_remat_replay(results):
    replayed = {name for name, run in results.items() if run.ops_replayed > 0}
    assert replayed == {"full", "cli full", "cli sqrt", "cli budget"}


def test_checkpoints_hold_less_after_forward(results):
    held = {name: run.after_forward_bytes for name, run in results.items()}
    assert held["full"] <= 1.1 * held["torch"] < 0.5 * held["none"]
    assert held["cli sqrt"] < held["cli full"] < 0.5 * held["cli none"]


def test_the_budget_holds(results):
    peaks = {name: run.activation_peak_bytes for name, run in results.items()}
    assert peaks["cli budget"] <= 0.51 * peaks["cli none"]
