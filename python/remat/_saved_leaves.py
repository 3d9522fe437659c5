"""What a custom Function's backward gets of the leaves that it saved."""

from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from remat import _C

_read = torch._C._FunctionBase.saved_tensors.__get__  # type: ignore[attr-defined]


def _saved_tensors(ctx: Any) -> Any:
    return _C.as_saved(_read(ctx))


def keep_identity() -> None:
    """Has ``ctx.saved_tensors`` give saved parameters back as the objects that forward saved.

    autograd makes a new tensor of every leaf that a saved-tensor hook gives back. A backward that
    accumulates the gradient itself (``weight.grad``, Megatron's ``weight.main_grad``) would write
    it to that new object, and it would be lost. Tensors that hooks changed stay as they are.
    """
    BackwardCFunction.saved_tensors = property(_saved_tensors)  # type: ignore[attr-defined]
