"""What tests ask of the recorder; not for users."""

import contextlib
from collections.abc import Iterator

from remat import _C


def nodes() -> int:
    """Nodes of the tape that is open on this thread, 0 where none is."""
    return _C.open_nodes()


def kept_bytes() -> int:
    """Bytes that all tapes hold: inputs, kept values, and what replays made."""
    return _C.total_held_bytes()


@contextlib.contextmanager
def always_recompute() -> Iterator[None]:
    """Regions recompute even where that saves nothing: tensors of tests are small."""
    _C.set_always_recompute(True)
    try:
        yield
    finally:
        _C.set_always_recompute(False)
