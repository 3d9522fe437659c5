"""A model of any form that transformers reads, written as the folder that remat reads."""

import shutil
from pathlib import Path

from remat.prepare._errors import ModelError

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")  # of models/config.h


def prepare_model(source: str, output: Path, dtype: str) -> None:
    if output.exists():
        raise ModelError(f"{output}: exists already; name another folder, or remove it")
    # Written beside and renamed at the end: an interruption must not leave half a model that looks
    # like a whole one.
    partial = output.with_name(output.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        _convert(source, partial, dtype)
        partial.rename(output)
    except OSError as error:
        raise ModelError(f"{output}: cannot be written: {error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"{output}: {size / 2**20:,.0f} MiB, {dtype}")


def _convert(source: str, folder: Path, dtype: str) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    name, options = _location(source)
    try:
        config = AutoConfig.from_pretrained(name, **options)
        _check_family(source, config.model_type)
        model = AutoModelForCausalLM.from_pretrained(
            name, dtype={"bf16": torch.bfloat16, "f32": torch.float32}[dtype], **options
        )
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise ModelError(f"{source}: transformers cannot read it: {error}") from error
    (_unquantized(model) if options else model).save_pretrained(folder, max_shard_size="5GB")
    tokenizer.save_pretrained(folder)


def _location(source: str) -> tuple[str, dict]:
    """What from_pretrained is given: a name or folder, and a GGUF file in it."""
    path = Path(source)
    if path.suffix != ".gguf":
        return source, {}
    if not path.is_file():
        raise ModelError(f"{source}: no such file")
    return str(path.parent), {"gguf_file": path.name}


def _check_family(source: str, family: str) -> None:
    if family not in FAMILIES:
        raise ModelError(
            f"{source}: model_type {family!r} is not supported; supported are {', '.join(FAMILIES)}"
        )


def _unquantized(packed):
    # The weights are plain by now, yet transformers still marks a model read from GGUF as quantized
    # and refuses to save it: only a fresh model without the mark can be saved.
    settings = packed.config.to_dict()
    settings.pop("quantization_config", None)
    model = type(packed)(type(packed.config).from_dict(settings)).to(packed.dtype)
    model.load_state_dict(packed.state_dict())
    return model
