"""What tests ask of the recorder; not for users."""

from remat import _C


def nodes() -> int:
    """Nodes of the tape that is open on this thread, 0 where none is."""
    return _C.open_nodes()


def kept_bytes() -> int:
    """Bytes that all tapes hold: inputs, kept values, and what replays made."""
    return _C.total_held_bytes()
