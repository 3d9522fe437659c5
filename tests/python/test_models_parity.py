"""The C++ decoders against transformers: tiny random models of each family, and SmolLM2."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("REMAT_BUILD", ROOT / "build" / "release"))
TOOL = BUILD / "tests" / "models" / "model_tool"
SMOLLM2 = ROOT / "out" / "demo" / "model"

TINY = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,  # large enough that every term shows in the logits
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CONFIGS = {
    "llama": LlamaConfig(**TINY, tie_word_embeddings=True),
    "llama-biases": LlamaConfig(**TINY, attention_bias=True, mlp_bias=True),
    "llama-3": LlamaConfig(**TINY, rope_parameters=LLAMA3),
    "llama-linear": LlamaConfig(
        **TINY, rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
    ),
    "llama-wide-heads": LlamaConfig(**TINY, head_dim=16),
    "mistral": MistralConfig(**TINY, sliding_window=7),
    "mistral-no-window": MistralConfig(**TINY, sliding_window=None),
    "qwen2": Qwen2Config(**TINY),
    "qwen2-window": Qwen2Config(
        **TINY, use_sliding_window=True, sliding_window=5, max_window_layers=1
    ),
    "qwen3": Qwen3Config(**TINY, head_dim=16),
    "qwen3-biases": Qwen3Config(**TINY, attention_bias=True, tie_word_embeddings=True),
}


@pytest.fixture(scope="module", params=CONFIGS)
def model(request, tmp_path_factory):
    """A random model, and the folder that transformers saved it to."""
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(CONFIGS[request.param]).eval()
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            torch.nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.2)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder)
    return model, folder


def tool(*words) -> None:
    if not TOOL.exists():
        pytest.fail(f"{TOOL} is missing: make build")
    done = subprocess.run(
        [TOOL, *map(str, words)], capture_output=True, text=True, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr


def ask(command: str, folder: Path, scratch: Path, **tensors) -> dict[str, torch.Tensor]:
    save_file({name: t.contiguous() for name, t in tensors.items()}, scratch / "in.safetensors")
    tool(command, folder, scratch / "in.safetensors", scratch / "out.safetensors")
    return load_file(scratch / "out.safetensors")


def some_tokens(rows=2, length=40, vocabulary=96) -> torch.Tensor:
    return torch.randint(vocabulary, (rows, length), generator=torch.Generator().manual_seed(2))


def assert_close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs.detach(), atol=1e-4, rtol=1e-4)


def test_logits_are_those_of_transformers(model, tmp_path):
    theirs, folder = model
    tokens = some_tokens()
    ours = ask("logits", folder, tmp_path, tokens=tokens)["logits"]
    assert_close(ours, theirs(tokens).logits)


def test_gradients_are_those_of_transformers(model, tmp_path):
    theirs, folder = model
    tokens = some_tokens()
    theirs.zero_grad()
    theirs(tokens, labels=tokens).loss.backward()
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    ours = ask("gradients", folder, tmp_path, tokens=tokens)
    assert ours.keys() == expected.keys()
    for name, gradient in ours.items():
        assert_close(gradient, expected[name])


def test_a_cache_changes_no_logits(model, tmp_path):
    theirs, folder = model
    tokens = some_tokens()
    ours = ask("cached", folder, tmp_path, tokens=tokens)["logits"]
    assert_close(ours, theirs(tokens).logits)


def test_packed_documents_do_not_see_each_other(model, tmp_path):
    theirs, folder = model
    first, second = some_tokens(rows=1, length=17), some_tokens(rows=1, length=23)
    documents = torch.tensor([[0] * 17 + [1] * 23])
    packed = {"tokens": torch.cat([first, second], 1), "documents": documents}
    ours = ask("logits", folder, tmp_path, **packed)["logits"]
    assert_close(ours, torch.cat([theirs(first).logits, theirs(second).logits], 1))


@pytest.mark.parametrize("shard_bytes", [10**9, 20_000], ids=["one-file", "shards"])
def test_transformers_loads_what_we_save(model, tmp_path, shard_bytes):
    theirs, folder = model
    tool("save", folder, tmp_path / "saved", shard_bytes)
    reloaded = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").eval()
    tokens = some_tokens()
    assert torch.equal(reloaded(tokens).logits, theirs(tokens).logits)


def test_one_file_is_written_as_the_reference_library_writes_it(model, tmp_path):
    _, folder = model
    tool("save", folder, tmp_path / "saved", 10**9)
    written = (tmp_path / "saved" / "model.safetensors").read_bytes()
    assert written == (folder / "model.safetensors").read_bytes()


@pytest.mark.skipif(not SMOLLM2.exists(), reason="make demo prepares SmolLM2 in out/demo/model")
def test_logits_of_smollm2_are_those_of_transformers(tmp_path):
    theirs = AutoModelForCausalLM.from_pretrained(SMOLLM2, dtype=torch.float32).eval()
    tokens = some_tokens(rows=1, length=128, vocabulary=49152)
    ours = ask("logits", SMOLLM2, tmp_path, tokens=tokens)["logits"]
    assert_close(ours, theirs(tokens).logits)
