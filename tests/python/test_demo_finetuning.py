"""The demo's fine-tuning, on a tiny model: the recipes agree to the bit, and remat does replay."""

import sys
from pathlib import Path

import pytest
import transformers

sys.path.append(str(Path(__file__).parents[2] / "demo"))

from progress import Progress
from race import race
from recipe import RECIPES
from result import differences
from settings import Settings


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    # Nine layers, for three regions of sqrt; wide enough that activations outweigh random states.
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
    runs = race(train, train[:1], Settings(folder, rank=4, threads=1), Progress())
    return {run.name: run for run in runs}


def test_all_runs_agree_to_the_bit(results):
    assert list(results) == list(RECIPES)
    assert differences(list(results.values())) == []


def test_training_changes_the_held_out_loss(results):
    assert results["none"].held_out_after < results["none"].held_out_before


def test_only_the_runs_of_remat_replay(results):
    replayed = {name for name, run in results.items() if run.ops_replayed > 0}
    assert replayed == {"full", "sqrt"}


def test_checkpoints_hold_less_after_forward(results):
    held = {name: run.after_forward_bytes for name, run in results.items()}
    assert held["sqrt"] < held["full"] <= 1.1 * held["torch"] < 0.5 * held["none"]
