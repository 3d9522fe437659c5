"""The small model, its data and flags that the tests of `remat train` start from."""

import pytest
import torch
from train_runs import STEPS, VOCABULARY, peft_model, rows, write_tokens


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=5,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        eos_token_id=2,
        initializer_range=0.2,
    )
    folder = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return write_tokens(tmp_path_factory.mktemp("data") / "train.safetensors", rows())


@pytest.fixture(scope="session")
def adapter(model, tmp_path_factory):
    """An adapter of peft in which B is not zero, so that A gets a gradient from the first step."""
    folder = tmp_path_factory.mktemp("adapter")
    peft_model(model).save_pretrained(folder)
    return folder


@pytest.fixture
def flags(model, data):
    return {
        "model": model,
        "data": data,
        "max_steps": STEPS,
        "learning_rate": 5e-3,
        "per_device_train_batch_size": 2,
        "threads": 1,
    }
