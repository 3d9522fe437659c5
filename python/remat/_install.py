"""Every call of torch.utils.checkpoint goes to remat, wherever it was imported."""

import sys
from types import ModuleType
from typing import Any

from torch.utils import checkpoint as torch_checkpoint

from remat._checkpoint import checkpoint, checkpoint_sequential

_replacements = {
    torch_checkpoint.checkpoint: checkpoint,
    torch_checkpoint.checkpoint_sequential: checkpoint_sequential,
}


def install() -> None:
    """Replaces torch.utils.checkpoint's functions by remat's, wherever they were imported.

    Hugging Face's ``gradient_checkpointing_enable()`` and
    ``TrainingArguments(gradient_checkpointing=True)``, PEFT, Accelerate, fairscale-style wrappers
    and torch's own checkpoint wrapper then use remat. Call it before a model's checkpointing is
    enabled: models keep the function they were given. A second call covers modules imported since.
    """
    _replace(_replacements)


def uninstall() -> None:
    """Puts torch's functions back."""
    _replace({ours: torchs for torchs, ours in _replacements.items()})


def _replace(replacements: dict[Any, Any]) -> None:
    for module in list(sys.modules.values()):
        if not isinstance(module, ModuleType) or module.__name__.split(".")[0] == "remat":
            continue
        for name, value in list(vars(module).items()):
            if callable(value) and getattr(value, "__hash__", None) and _is_in(value, replacements):
                setattr(module, name, replacements[value])


def _is_in(value: Any, replacements: dict[Any, Any]) -> bool:
    return any(value is known for known in replacements)
