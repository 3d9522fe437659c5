"""What a custom Function's backward gets of the tensors that it saved."""

from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from remat import _C

_read = torch._C._FunctionBase.saved_tensors.__get__  # type: ignore[attr-defined]


def _saved_tensors(ctx: Any) -> Any:
    return _C.saved_tensors(_read, ctx)


def keep_identity() -> None:
    """Has ``ctx.saved_tensors`` give back the objects that forward saved, as in plain training.

    autograd makes a new tensor of every leaf, and of every tensor with a graph, that a saved-tensor
    hook gives back. A backward that accumulates a gradient itself (``weight.grad``, Megatron's
    ``weight.main_grad``) would write it to that new object, and it would be lost; one that returns
    what it saved would have it taken for a gradient that nobody else uses.
    """
    BackwardCFunction.saved_tensors = property(_saved_tensors)  # type: ignore[attr-defined]
