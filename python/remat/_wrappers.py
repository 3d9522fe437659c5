"""Tensors that are wrapped around others, taken apart where autograd saves them.

Nested jagged tensors and DTensor say by ``__tensor_flatten__`` which tensors they are made of. What
is recorded are the operators on these, so what a region keeps or recomputes are these as well.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from remat import _C


def _take_apart(wrapper: Any) -> tuple[list[torch.Tensor], Any] | None:
    if not is_traceable_wrapper_subclass(wrapper):
        return None
    names, context = wrapper.__tensor_flatten__()
    inner = {name: getattr(wrapper, name) for name in names}
    # Offsets of a jagged tensor are known by object: another with the same numbers is another size.
    parts = [name for name, value in inner.items() if _is_data(value)]
    if not parts:
        return None
    tensors = [inner[name] for name in parts]
    kept = {name: tensor for name, tensor in inner.items() if name not in parts}
    how = (type(wrapper), names, parts, kept, context, wrapper.size(), wrapper.stride())
    return tensors, how


def _is_data(value: Any) -> bool:
    return torch.is_tensor(value) and (value.is_floating_point() or value.is_complex())


def _put_together(tensors: list[torch.Tensor], how: Any) -> torch.Tensor:
    kind, names, parts, kept, context, size, stride = how
    made = dict(zip(parts, tensors, strict=True)) | kept
    inner = {name: made[name] for name in names}
    with torch.no_grad():
        return kind.__tensor_unflatten__(inner, context, size, stride).detach()


_C.set_wrapper_hooks(_take_apart, _put_together)
