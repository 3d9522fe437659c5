"""Regions that the hooks of segments hold open on this thread.

Whoever opens or closes a region in another way settles first: regions close in the reverse order of
opening.
"""

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules import module as torch_module
from torch.utils import _pytree as pytree

from remat import _C
from remat._modules import ModuleWatch


@dataclass(eq=False)
class Opened:
    """A region, open from the first layer of a part that runs to the last."""

    row: Any  #: the segments whose part it is
    part: int
    position: int  #: in the row, of the layer that runs or ran last
    running: nn.Module | None  #: None between two layers
    region: _C.Region
    watch: ModuleWatch | None

    def is_held(self, beginning: nn.Module | None) -> bool:
        """Whether a layer runs in it. An interrupted one has left its name and no call."""
        if self.running is None:
            return False
        return calls_under_way(self.running) > (1 if self.running is beginning else 0)

    def close(self) -> None:
        if self.watch is not None:
            self.watch.close()
        self.region.close()


class _Waiting:
    """Has the next module that begins on this thread close the region, if no layer does so first:
    a layer that forward leaves out runs no hook. The hook is there as long as this is."""

    def __init__(self) -> None:
        self._handle = torch_module.register_module_forward_pre_hook(_on_next_module)

    def __del__(self) -> None:
        self._handle.remove()


class _Thread(threading.local):
    def __init__(self) -> None:
        self.opened: list[Opened] = []
        self.waiting: _Waiting | None = None
        #: a module that ran behind a layer and had its part closed, until the next layer begins
        self.closed_by: tuple[weakref.ref[nn.Module], Opened] | None = None


thread = _Thread()


def settle(outer: int = 0, beginning: nn.Module | None = None) -> None:
    """Closes the regions that no layer runs in, down to so many: what follows is none of them."""
    opened = thread.opened
    while len(opened) > outer and not opened[-1].is_held(beginning):
        if is_in_a_checkpoint(opened[-1].row):
            return  # of which the region lies inside this one
        opened.pop().close()
    if not opened:
        thread.waiting = None


def wait(result: Any) -> None:
    """Has what comes behind the layer that returned the result close the region, if no layer of the
    row does: the next module, or the end of the module that runs the row. Without one, backward.
    """
    thread.waiting = _Waiting()
    last = thread.opened[-1]
    around = _first_around(last.row)
    if around is None or around.f_code is not _CALL:
        weak = weakref.ref(last)
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.grad_fn is not None:
                tensor.grad_fn.register_prehook(lambda _: _on_backward(weak()))


def _on_backward(last: Opened | None) -> None:
    if last is not None and any(last is opened for opened in thread.opened):
        settle()


def _on_next_module(module: nn.Module, _args: Any) -> None:
    if is_compiling() or thread.waiting is None or not thread.opened:
        return  # not this thread's
    last = thread.opened[-1]
    if any(last.row.has(inside) for inside in module.modules()):
        return  # a layer, or what wraps it
    thread.waiting = None
    if module not in last.row.between:
        thread.closed_by = (weakref.ref(module), last)
        settle()


def calls_under_way(module: nn.Module) -> int:
    """How many calls of the module this thread is in."""
    frames = _frames(lambda frame: frame.f_code is _CALL and frame.f_locals["self"] is module)
    return sum(1 for _ in frames)


def is_in_a_checkpoint(row: Any) -> bool:
    """Whether a checkpoint is between here and the module that runs the row."""
    around = _first_around(row)
    return around is not None and around.f_code is not _CALL


def _first_around(row: Any) -> FrameType | None:
    """The call of the module that runs the row, or of a checkpoint, whichever is nearer."""

    def is_wanted(frame: FrameType) -> bool:
        if frame.f_code is _CALL:
            return row.is_run_by(frame.f_locals["self"])
        return frame.f_globals.get("__name__") == "remat._checkpoint"

    return next(_frames(is_wanted), None)


_CALL = nn.Module._call_impl.__code__


def _frames(is_wanted: Callable[[FrameType], bool]) -> Any:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_wanted(frame):
            yield frame
        frame = frame.f_back
