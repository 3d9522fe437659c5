"""Small random models of the architectures of transformers that can be shrunk by their
configuration alone; nothing is downloaded."""

import inspect

import torch
import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

# By every name under which some configuration knows it.
SIZES = {
    32: "hidden_size n_embd d_model word_embed_proj_dim embed_dim embedding_size dim"
    " attention_hidden_size",
    64: "intermediate_size max_position_embeddings n_inner n_positions n_ctx d_ff encoder_ffn_dim"
    " decoder_ffn_dim ffn_dim hidden_dim expert_capacity max_target_positions",
    2: "num_hidden_layers num_key_value_heads n_layer num_layers num_decoder_layers encoder_layers"
    " decoder_layers num_experts_per_tok n_layers moe_topk type_vocab_size eos_token_id",
    4: "num_attention_heads n_head num_heads encoder_attention_heads decoder_attention_heads"
    " num_experts num_local_experts n_routed_experts n_heads conv_kernel mamba_d_conv"
    " moe_num_experts",
    8: "head_dim d_kv q_lora_rank kv_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim"
    " rotary_dim hidden_size_per_layer_input state_size ssm_state_size mamba_d_state patch_size",
    16: "moe_intermediate_size shared_expert_intermediate_size sliding_window image_size"
    " num_mel_bins",
    99: "vocab_size vocab_size_per_layer_input",
    20: "max_source_positions",
    3: "num_channels",
    1: "n_group topk_group first_k_dense_replace num_shared_experts bos_token_id",
    0: "pad_token_id decoder_start_token_id",
}
SMALL = {name: size for size, names in SIZES.items() for name in names.split()}
DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "attention_dropout",
    "dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "dropout_rate",
    "hidden_dropout",
)
HEADS = {
    "causal": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "masked": modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    "seq2seq": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "image": modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
}
# The architectures that most people fine-tune, with the head that is tried; the rest is tried with
# every head it has.
PICKED = {
    "causal": "gpt2 llama qwen2 qwen3 mistral gemma gemma2 gemma3_text mixtral qwen3_moe"
    " deepseek_v3 gpt_oss phi3 opt gpt_neox bloom falcon mamba olmo2 granite",
    "masked": "bert roberta distilbert electra deberta-v2",
    "seq2seq": "t5 bart",
    "image": "vit",
}
MOST_PARAMETERS = 3_000_000


def picked():
    """(head, architecture) of the picked ones."""
    return [(head, name) for head, names in PICKED.items() for name in names.split()]


def others():
    """(head, architecture) of all others that transformers knows."""
    known = set(picked())
    return [(head, name) for head in HEADS for name in HEADS[head] if (head, name) not in known]


def configuration(architecture):
    """A small one, whose attention is the one that writes its matrices out."""
    kind = CONFIG_MAPPING[architecture]
    known = {"activation_dropout"}
    for base in kind.__mro__:
        known |= set(getattr(base, "__annotations__", {}))
        known |= set(inspect.signature(base.__init__).parameters)
    aliases = getattr(kind, "attribute_map", {}) or {}
    values = {name: size for name, size in SMALL.items() if name in known or name in aliases}
    for alias, real in aliases.items():
        if alias in values and real in values:
            del values[alias]
    if "qk_rope_head_dim" in values:
        values.pop("head_dim", None)
        values["num_key_value_heads"] = values["num_attention_heads"]
    config = kind(**values)
    config._attn_implementation = "eager"
    return config


def model_class(architecture, head):
    name = HEADS[head][architecture]
    return getattr(transformers, name[0] if isinstance(name, tuple) else name)


def inputs(config, head, seed=0):
    """A batch of two: 10 tokens each, or an image each."""
    generator = torch.Generator().manual_seed(seed)
    if head == "image":
        shape = (2, 3, config.image_size, config.image_size)
        return {"pixel_values": torch.randn(shape, generator=generator)}
    tokens = torch.randint(3, 99, (2, 10), generator=generator)
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if head == "seq2seq":
        batch["decoder_input_ids"] = torch.randint(3, 99, (2, 10), generator=generator)
        batch["decoder_attention_mask"] = torch.ones_like(tokens)
    return batch


def model(architecture, head):
    """The model, in training mode with dropout wherever it has any. ValueError where it does not
    get small or cannot checkpoint."""
    config = configuration(architecture)
    config.use_cache = False
    for name in DROPOUTS:
        if isinstance(getattr(config, name, None), (int, float)):
            setattr(config, name, 0.1)
    kind = model_class(architecture, head)
    if not kind.supports_gradient_checkpointing:
        raise ValueError("has no checkpointing")
    torch.manual_seed(0)
    try:
        with torch.device("meta"):
            size = sum(parameter.numel() for parameter in kind(config).parameters())
    except ValueError:
        config.attention_dropout = 0.0  # some have no dropout there
        size = 0
    if size > MOST_PARAMETERS:
        raise ValueError("is not shrunk by its configuration")
    return kind(config).train()
