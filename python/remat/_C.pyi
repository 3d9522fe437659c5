"""The C++ library behind the remat package. Users call the package's functions instead."""
# ruff: noqa: N999  (the name that torch extensions have)

from collections.abc import Callable, Sequence
from typing import Any, Never, TypeVar, overload

import torch

from remat._stats import Stats

_T = TypeVar("_T")

__version__: str

class Facts:
    """What a policy function is told of a value. Read only."""

    op: str
    """of the operator that made it: "aten::mm", or "aten::add.Tensor" with the overload"""
    bytes: int
    """of the value's buffer"""
    shape: tuple[int, ...]
    dtype: torch.dtype
    index: int
    """operators recorded before it since the outermost region opened"""
    result: int
    """which of the values that the operator made, those it wrote first"""
    call: int
    """which call of this operator in its region, from 1"""
    module: str | None
    """path of the module that runs; None where the region was told of none"""
    names: tuple[str, ...]
    """what checkpoint_name called it so far: the policy is asked again with every name"""

class Policy:
    """A named pure function of a value's facts that says what to keep.

    Policy("dots_saveable | names(attn_out)") reads a text, the inverse of str(). ValueError, with
    the column and the names there are. Policy(function) asks a function of Facts, which returns
    True to keep the value. What it raises, the region raises when it closes.
    """

    @overload
    def __init__(self, text: str) -> None: ...
    @overload
    def __init__(self, function: Callable[[Facts], bool], name: str | None = None) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def wants_module(self) -> bool: ...
    def __and__(self, other: Policy | str | Callable[[Facts], bool]) -> Policy: ...
    def __or__(self, other: Policy | str | Callable[[Facts], bool]) -> Policy: ...
    def __sub__(self, other: Policy | str | Callable[[Facts], bool]) -> Policy: ...
    def __rand__(self, other: str | Callable[[Facts], bool]) -> Policy: ...
    def __ror__(self, other: str | Callable[[Facts], bool]) -> Policy: ...
    def __rsub__(self, other: str | Callable[[Facts], bool]) -> Policy: ...

# Each raises ValueError for what it cannot take; remat.policies describes them.
def keep_ops(patterns: Sequence[str]) -> Policy: ...
def names(patterns: Sequence[str]) -> Policy: ...
def modules(patterns: Sequence[str]) -> Policy: ...
def at_least(size: int) -> Policy: ...
def at_most(size: int) -> Policy: ...
def every(k: int) -> Policy: ...
def save_only_these_names(names: Sequence[str]) -> Policy: ...
def save_any_names_but_these(names: Sequence[str]) -> Policy: ...
def save_anything_except_these_names(names: Sequence[str]) -> Policy: ...
def refuse_offload(name: str) -> Never: ...
def known_policies() -> list[str]:
    """The names that a policy's text may have, "(...)" behind those that take something."""

def name(tensor: torch.Tensor, name: str) -> None:
    """Names the value that the tensor shows, in an open region of this thread."""

class Region:
    """An open region of this thread. Policy None is nothing_saveable; with 0 segments the library
    chooses how many."""

    def __init__(self, policy: Policy | None, segments: int, verify: bool = False) -> None: ...
    def close(self) -> None:
        """Raises RuntimeError if a region inside this one is still open, and what recording or a
        policy failed with."""

    def set_module(self, path: str) -> None:
        """The module that runs from here on, for policies that want it."""

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

def saved_tensors(read: Any, ctx: Any) -> Any: ...
def set_wrapper_hooks(take_apart: Any, put_together: Any) -> None: ...
def note_exposed(tensor: torch.Tensor) -> None: ...
def copy_before_a_step() -> None: ...
def set_always_recompute(always: bool) -> None: ...
def total_held_bytes() -> int:
    """Bytes of tensors that all tapes hold."""

def install_allocator() -> None: ...
def allocator_is_installed() -> bool: ...
def live_bytes() -> int: ...
def peak_bytes() -> int: ...
def reset_peak() -> None: ...
def add_gather(function: Callable[[Any], Callable[[], None] | None]) -> int:
    """The function fills a parameter and returns what frees it again, or None."""

def remove_gather(key: int) -> None: ...
def open_function(name: str) -> None:
    """Records the Function of that name, inside whose forward it is called, by what it calls."""

def declare_replayable(name: str) -> None:
    """Raises RuntimeError for operators of torch and names without a namespace."""

class VerifyScope:
    """Regions that this thread opens between enter and exit verify."""

    def enter(self) -> None: ...
    def exit(self) -> None: ...

def set_module_name(name: str) -> None:
    """The module that runs on this thread, for messages."""
