"""Model code of transformers, tiny and random: loss and every gradient equal plain's to the bit."""

import contextlib
import functools

import peft
import pytest
import torch
import transformers
from bitwise import assert_same

import remat

SIZE = {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}


def gpt2():
    # Dropout of embeddings, attention and residuals is 0.1 by default.
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZE, n_positions=64))


def llama():
    config = transformers.LlamaConfig(
        **SIZE,
        num_key_value_heads=2,
        intermediate_size=128,
        attention_dropout=0.1,
        max_position_embeddings=64,
    )
    return transformers.LlamaForCausalLM(config)


def with_lora(model):
    config = peft.LoraConfig(
        r=4, lora_dropout=0.1, target_modules="all-linear", init_lora_weights=False
    )
    return peft.get_peft_model(model, config)


MODELS = {"gpt2": gpt2, "llama": llama}
SETUPS = {
    "dropout": {},
    "lora": {"lora": True},
    "bf16 autocast": {"autocast": True},
    "accumulation": {"batches": 3},
}


def build(name, lora=False):
    torch.manual_seed(0)
    model = MODELS[name]()
    model.config.use_cache = False
    return (with_lora(model) if lora else model).train()


def layers_of(model):
    base = model.get_base_model() if isinstance(model, peft.PeftModel) else model
    return base.transformer.h if hasattr(base, "transformer") else base.model.layers


def train(model, autocast=False, batches=1):
    """One optimizer step's worth of losses and gradients, and the random state that it leaves."""
    torch.manual_seed(1)
    losses = []
    for _ in range(batches):
        tokens = torch.randint(128, (2, 24))
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = model(input_ids=tokens, labels=tokens).loss / batches
        loss.backward()
        losses.append(loss.detach())
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert all(gradient is not None for gradient in gradients.values())
    return {"losses": losses, "random state": torch.get_rng_state(), **gradients}


@functools.cache
def plain(name, setup):
    options = dict(SETUPS[setup])
    return train(build(name, options.pop("lora", False)), **options)


@contextlib.contextmanager
def installed(model):
    """What a user of transformers writes: remat.install(), and the model's own switch."""
    remat.install()
    try:
        model.gradient_checkpointing_enable()
        yield
    finally:
        remat.uninstall()


@contextlib.contextmanager
def selective(model):
    """The same with a policy, which transformers hands on."""
    remat.install()
    try:
        policy = "dots_with_no_batch_dims_saveable - modules(mlp)"
        model.gradient_checkpointing_enable({"policy": policy})
        yield
    finally:
        remat.uninstall()


@contextlib.contextmanager
def segmented(model):
    handle = remat.segment(layers_of(model))
    yield
    handle.remove()


@contextlib.contextmanager
def whole_step(model):
    with remat.region():
        yield


@contextlib.contextmanager
def nested(model):
    with remat.region(), segmented(model), installed(model):
        yield


@pytest.mark.parametrize(
    "way", [installed, selective, segmented, whole_step, nested], ids=lambda way: way.__name__
)
@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("name", MODELS)
def test_equals_plain(name, setup, way):
    options = dict(SETUPS[setup])
    model = build(name, options.pop("lora", False))
    with way(model):
        got = train(model, **options)
    assert remat.stats()["ops_replayed"] > 0
    assert_same(got, plain(name, setup))


@pytest.mark.parametrize("name", MODELS)
def test_backward_after_the_region(name):
    model = build(name)
    torch.manual_seed(1)
    tokens = torch.randint(128, (2, 24))
    with remat.region():
        loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    assert remat.stats()["ops_replayed"] > 0
    assert_same(
        {n: p.grad for n, p in model.named_parameters()}, without_state(plain(name, "dropout"))
    )


def without_state(results):
    return {key: value for key, value in results.items() if key not in ("losses", "random state")}


@pytest.mark.parametrize("name", MODELS)
def test_evaluation_records_nothing(name):
    model = build(name)
    with installed(model):
        model.eval()
        model(input_ids=torch.arange(24)[None])
    assert remat.stats()["ops_recorded"] == 0


@pytest.mark.parametrize("name", MODELS)
def test_learns_as_plain_over_many_steps(name):
    def losses(way):
        model = build(name)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        seen = []
        for _ in range(5):
            with way(model):
                seen += train(model)["losses"]
            optimizer.step()
            optimizer.zero_grad()
        return seen

    assert_same(losses(segmented), losses(contextlib.nullcontext))
