"""What remat did in this process."""

from typing import TypedDict

from remat import _C


class Stats(TypedDict):
    """All threads together, since the start or since reset_stats()."""

    regions: int
    """outermost regions that recorded"""
    ops_recorded: int
    ops_replayed: int
    bytes_dropped: int
    """of saved tensors that are recomputed"""
    bytes_kept: int
    """of saved tensors that are kept; two that share memory count twice"""
    kept_by_reason: dict[str, int]
    """bytes_kept by reason: parameter, input, policy, unknown, opaque, suspended"""


def stats() -> Stats:
    """The counts so far."""
    return _C.stats()


def reset_stats() -> None:
    """Sets all counts to zero."""
    _C.reset_stats()
