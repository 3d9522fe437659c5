"""LoRA fine-tuning through transformers and peft: their own switch, on remat.

The model is a tiny Llama with random weights, so that nothing is downloaded.
"""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

import remat


def lora_model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=192,
        num_hidden_layers=9,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    lora = LoraConfig(r=8, lora_dropout=0.05, target_modules="all-linear", task_type="CAUSAL_LM")
    return get_peft_model(LlamaForCausalLM(config), lora).train()


def train(prepare):
    """The losses of a few steps, and the most bytes of activations."""
    model = lora_model()
    prepare(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    tokens = torch.randint(256, (2, 128), generator=torch.Generator().manual_seed(1))
    losses = []
    for _ in range(4):
        before = remat.memory.live_bytes()
        remat.memory.reset_peak()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        peak = remat.memory.peak_bytes() - before
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        losses.append(loss.item())
    return losses, peak


def nothing(model):
    pass


def their_switch(model):
    remat.install()
    model.activation_checkpointing_enable()  # in older versions: gradient_checkpointing_enable


def groups_of_layers(model):
    remat.segment(model.get_base_model().model.layers)


remat.memory.install()
expected, most = train(nothing)
for prepare in (nothing, their_switch, groups_of_layers):
    losses, peak = train(prepare)
    text = " ".join(f"{loss:.6f}" for loss in losses)
    print(f"{prepare.__name__:16}  activations {peak / 2**20:5.1f} MiB  losses {text}")
    assert losses == expected
assert peak < most
