"""Who gets a pointer to a tensor's bytes and may write them unseen."""

import functools
from typing import Any

import torch

from remat import _C

_dlpack = torch.Tensor.__dlpack__


@functools.wraps(_dlpack)
def _noting_dlpack(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    _C.note_exposed(self)
    return _dlpack(self, *args, **kwargs)


def note_exports() -> None:
    """Has an open region keep what was given to others by DLPack, as it keeps what numpy got.

    ``Tensor.numpy()`` leaves a mark on the storage, ``__dlpack__`` none.
    """
    torch.Tensor.__dlpack__ = _noting_dlpack  # type: ignore[method-assign]
