"""The C++ library behind the remat package. Users call the package's functions instead."""
# ruff: noqa: N999  (the name that torch extensions have)

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from remat._stats import Stats

_T = TypeVar("_T")

__version__: str

class Policy:
    """A named pure function of an operator's facts that says what to keep."""

    @property
    def name(self) -> str: ...

def keep_ops(names: Sequence[str]) -> Policy:
    """Raises ValueError on an empty list or name."""

def policy_by_name(name: str) -> Policy:
    """Raises ValueError, listing the names there are."""

class Region:
    """An open region of this thread. Policy None is nothing_saveable; with 0 segments the library
    chooses how many."""

    def __init__(self, policy: Policy | None, segments: int) -> None: ...
    def close(self) -> None:
        """Raises RuntimeError if recording failed or a region inside this one is still open."""

    @property
    def is_recording(self) -> bool: ...
    def held_bytes(self) -> int: ...
    def text(self) -> str: ...
    def dot(self) -> str: ...
    def json(self) -> str: ...

def parse_bytes(text: str) -> int:
    """Bytes of "6GiB", "6G" or "6000MB". Raises ValueError."""

class DoesNotFit(RuntimeError):  # noqa: N818  (as in C++)
    """No plan for a step fits its budget."""

    least_bytes: int
    """The least budget that fits, of the kind that was given."""

class Session:
    """Steps within a budget, in bytes; exactly one of the two is positive."""

    def __init__(self, activation_bytes: int, memory_bytes: int, plans: list[str]) -> None: ...
    def begin(self) -> None:
        """Begins a step and ends the one before. RuntimeError in an open region."""

    def end(self) -> None:
        """Does nothing where no step is under way. DoesNotFit if no plan fits the budget."""

    def report(self) -> dict[str, Any]: ...
    def plan(self) -> str | None: ...
    def trace(self) -> str | None: ...

def call_in_region(
    function: Callable[..., _T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: Policy | None,
    segments: int,
) -> _T:
    """Calls function(*args, **kwargs) in a region of its own."""

def stats() -> Stats: ...
def reset_stats() -> None: ...
def open_nodes() -> int:
    """Nodes of the tape that is open on this thread, 0 where none is."""

def total_held_bytes() -> int:
    """Bytes of tensors that all tapes hold."""

def install_allocator() -> None: ...
def allocator_is_installed() -> bool: ...
def live_bytes() -> int: ...
def peak_bytes() -> int: ...
def reset_peak() -> None: ...
