"""Which module runs, for policies and errors that name it."""

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules import module as torch_module

from remat import _C

Modules = nn.Module | Iterable[nn.Module]


def paths_of(root: Modules) -> dict[int, str]:
    """The paths of a module and all in it, "" its own; of layers, "0", "0.mlp", "1", ..., by id."""
    if isinstance(root, nn.Module):
        return {id(module): path for path, module in root.named_modules()}
    paths: dict[int, str] = {}
    for index, layer in enumerate(root):
        for path, module in layer.named_modules(prefix=str(index)):
            paths.setdefault(id(module), path)
    return paths


def module_of(function: Callable[..., Any]) -> nn.Module | None:
    """The module that calling the function runs: itself, or whose method it is, bound in whatever
    way (transformers binds ``partial(forward, layer)``)."""
    while isinstance(function, functools.partial):
        if function.args and isinstance(function.args[0], nn.Module):
            return function.args[0]
        function = function.func
    owner = function if isinstance(function, nn.Module) else getattr(function, "__self__", None)
    return owner if isinstance(owner, nn.Module) else None


class ModuleWatch:
    """Tells which modules run, the outermost first, whenever that changes, until it is closed.

    The hooks are those that torch calls for every module, and are there only meanwhile: the model
    keeps none, and what does not ask pays nothing.
    """

    def __init__(
        self, tell: Callable[[list[nn.Module]], None], running: nn.Module | None = None
    ) -> None:
        self._tell = tell
        self._thread = threading.get_ident()
        self._running = [] if running is None else [running]
        tell(self._running)
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._enter),
            torch_module.register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, module: nn.Module, _args: Any) -> None:
        if is_compiling():  # compiled code has no state of ours, and records nothing
            return
        if threading.get_ident() == self._thread:
            self._running.append(module)
            self._tell(self._running)

    def _leave(self, module: nn.Module, _args: Any, _result: Any) -> None:
        if is_compiling():
            return
        # A module that was called before the watch began also leaves.
        is_known = any(module is running for running in self._running)
        if threading.get_ident() != self._thread or not is_known:
            return
        while self._running.pop() is not module:  # modules inside that failed
            pass
        self._tell(self._running)


def watch_for(
    region: _C.Region, paths: dict[int, str], running: nn.Module | None = None
) -> ModuleWatch:
    """Tells an open region the path of the module that runs, of those that have one."""

    def tell(modules: list[nn.Module]) -> None:
        known = (paths[id(module)] for module in reversed(modules) if id(module) in paths)
        region.set_module(next(known, ""))

    return ModuleWatch(tell, running)
