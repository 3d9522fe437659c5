"""Regions around groups of layers of a model whose forward is not ours to change."""

import gc
import sys
import weakref
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling

from remat import _C
from remat._checkpoint import even_parts
from remat._modules import ModuleWatch, watch_for
from remat._open import Opened, is_in_a_checkpoint, settle, thread, wait
from remat.policies import PolicyLike, as_policy, picklable


class Segments:
    """A row of layers in parts. Of each part, the layers that run are one region.

    Its hooks lie on the layers, so they are copied and pickled with the model, and work there.
    """

    def __init__(self, parts: list[list[nn.Module]], policy: PolicyLike) -> None:
        self._set(policy, [index for index, part in enumerate(parts) for _ in part])
        layers = [layer for part in parts for layer in part]
        positions: dict[nn.Module, list[int]] = {}
        for position, layer in enumerate(layers):
            positions.setdefault(layer, []).append(position)
        for layer, its_positions in positions.items():
            self._hooks.add(_LayerHook(self, layer, its_positions))
        for caller in _callers_of(list(positions)):
            self._hooks.add(_CallerHook(self, caller))

    def _set(self, policy: PolicyLike, part_of: list[int]) -> None:
        self._given = policy
        self._policy = as_policy(policy)
        self._part_of = part_of
        self._hooks: weakref.WeakSet[_Hook] = weakref.WeakSet()
        #: modules that run between layers of one part, as far as was seen
        self.between: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def remove(self) -> None:
        """Takes the hooks away: the model trains as before. A copy of the model keeps its own."""
        for hook in list(self._hooks):
            hook.remove()
        self._hooks.clear()
        settle()

    def __getstate__(self) -> tuple[Any, ...]:
        return picklable(self._given), self._part_of

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._set(*state)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Segments":
        copied = memo[id(self)] = Segments.__new__(Segments)
        copied._set(self._given, self._part_of)
        return copied

    def has(self, module: nn.Module) -> bool:
        """Whether it is one of the layers."""
        return any(hook.row is self for hook in _hooks_of(module._forward_pre_hooks, _LayerHook))

    def is_run_by(self, module: nn.Module) -> bool:
        """Whether it is the module whose forward runs the layers."""
        return any(hook.row is self for hook in _hooks_of(module._forward_hooks, _CallerHook))

    def begin(self, layer: nn.Module, positions: list[int]) -> None:
        """A layer begins: in the region of its part, if that is open and has not come past it."""
        thread.waiting = None
        if is_in_a_checkpoint(self):
            return
        opened, closed_by, thread.closed_by = thread.opened, thread.closed_by, None
        last = opened[-1] if opened else None
        if last is not None and last.row is self and last.running is None:
            position = self._next(last, positions)
            if position is not None:
                last.position, last.running = position, layer
                return
        settle(beginning=layer)
        if not torch.is_grad_enabled():
            return
        position = positions[0]
        if closed_by is not None and closed_by[1].row is self:
            goes_on = self._next(closed_by[1], positions)
            between = closed_by[0]()
            if goes_on is not None and between is not None:
                self.between.add(between)
                position = goes_on
        opened.append(self._open(layer, position))

    def _next(self, last: Opened, positions: list[int]) -> int | None:
        """Where the layer stands behind the last one, in the same part."""
        behind = (p for p in positions if p > last.position and self._part_of[p] == last.part)
        return next(behind, None)

    def _open(self, layer: nn.Module, position: int) -> Opened:
        region = _C.Region(self._policy, 1)
        watch: ModuleWatch | None = None
        if self._policy is not None and self._policy.wants_module:
            # The hooks of a module that is being called are not those of the watch yet.
            watch = watch_for(region, self._paths(), running=layer)
        return Opened(self, self._part_of[position], position, layer, region, watch)

    def _paths(self) -> dict[int, str]:
        paths: dict[int, str] = {}
        layers = [hook for hook in self._hooks if isinstance(hook, _LayerHook)]
        for hook in sorted(layers, key=lambda hook: hook.positions[0]):
            layer = hook.module()
            if layer is not None:
                for path, module in layer.named_modules(prefix=str(hook.positions[0])):
                    paths.setdefault(id(module), path)
        return paths

    def end(self, layer: nn.Module, result: Any) -> None:
        """A layer ends, and with the last of a part or a failure the region."""
        opened = thread.opened
        index = next((i for i, o in reversed([*enumerate(opened)]) if self._ends(o, layer)), None)
        if index is None:
            return
        settle(outer=index + 1)  # of rows inside the layer, which was left
        it = opened[index]
        it.running = None
        has_failed = result is None and sys.exc_info()[0] is not None
        if has_failed or self._part_of[it.position + 1 : it.position + 2] != [it.part]:
            settle(outer=index)
        else:
            wait(result)

    def _ends(self, opened: Opened, layer: nn.Module) -> bool:
        return opened.row is self and opened.running is layer


class _Hook:
    """Hooks of one module, which go with it where it is copied or pickled."""

    def __init__(self, row: Segments, module: nn.Module) -> None:
        self.row = row
        self.module = weakref.ref(module)
        self._handles: list[Any] = []

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "module": self.module()}  # which is what is being copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, module=weakref.ref(state["module"]))
        self.row._hooks.add(self)


class _LayerHook(_Hook):
    def __init__(self, row: Segments, layer: nn.Module, positions: list[int]) -> None:
        super().__init__(row, layer)
        self.positions = positions
        self._handles = [
            layer.register_forward_pre_hook(self.begin, prepend=True),
            layer.register_forward_hook(self.end, always_call=True),
        ]

    def begin(self, layer: nn.Module, _args: Any) -> None:
        if not is_compiling():
            self.row.begin(layer, self.positions)

    def end(self, layer: nn.Module, _args: Any, result: Any) -> None:
        if not is_compiling():
            self.row.end(layer, result)


class _CallerHook(_Hook):
    """Of the module whose forward runs the layers: behind it none of them follows."""

    def __init__(self, row: Segments, caller: nn.Module) -> None:
        super().__init__(row, caller)
        self._handles = [caller.register_forward_hook(self.end, always_call=True)]

    def end(self, _caller: nn.Module, _args: Any, _result: Any) -> None:
        if not is_compiling():
            thread.closed_by = None
            if thread.opened:
                settle()


def _hooks_of(hooks: dict[int, Any], kind: type[Any]) -> list[Any]:
    owners = [getattr(hook, "__self__", None) for hook in hooks.values()]
    return [owner for owner in owners if isinstance(owner, kind)]


def _callers_of(layers: list[nn.Module]) -> list[nn.Module]:
    """The innermost modules with a forward that hold all of the layers.

    They are found among Python's objects, as a layer does not know where it is.
    """
    alive = [found for found in gc.get_objects() if issubclass(type(found), nn.Module)]
    wanted = {id(layer) for layer in layers}
    callers: list[nn.Module] = []
    level = {id(layers[0])}
    while level:
        holders = [m for m in alive if _is_around(m, level)]
        level = set()
        for holder in holders:
            runs = type(holder).forward is not nn.Module.forward
            if runs and wanted <= {id(module) for module in holder.modules()}:
                callers.append(holder)
            else:
                level.add(id(holder))
    return callers


def _is_around(module: nn.Module, inside: set[int]) -> bool:
    return any(id(child) in inside for child in module.__dict__.get("_modules", {}).values())


def segment(
    layers: nn.ModuleList | list[nn.Module],
    segments: int | None = None,
    policy: PolicyLike = None,
) -> Segments:
    """Puts regions around groups of consecutive layers, whoever calls them.

    For models whose forward runs ``layers`` in order, like the decoder layers of a language model::

        handle = remat.segment(model.model.layers)      # ceil(sqrt(n)) regions

    Forward may leave layers out, at random or at the end: of each group, those that run are the
    region, and it is closed by the last layer of the group, the first of another, the next module
    that is none of the layers, or the end of the module that runs them. Each thread has regions of
    its own; without gradients there are none. Compiled layers have none either.

    Args:
        layers: modules that forward calls one after the other.
        segments: number of groups, as even as they can be; ceil(sqrt(n)) by default.
        policy: what each region keeps, see :class:`remat.region`.

    Returns a handle whose ``remove()`` undoes it. A copy of the model, or one that was pickled and
    loaded, has the same segments and its own hooks.
    """
    return Segments(even_parts(list(layers), segments), policy)
