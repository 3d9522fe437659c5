"""Which module runs, for policies that ask."""

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn
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
    """Tells an open region which module runs, until it is closed.

    The hooks are those that torch calls for every module, and are there only meanwhile: the model
    keeps none, and a region whose policy does not ask pays nothing.
    """

    def __init__(
        self, region: _C.Region, paths: dict[int, str], running: nn.Module | None = None
    ) -> None:
        self._region = region
        self._paths = paths
        self._thread = threading.get_ident()
        self._running = [] if running is None else [id(running)]
        self._tell()
        self._handles = [
            torch_module.register_module_forward_pre_hook(self._enter),
            torch_module.register_module_forward_hook(self._leave, always_call=True),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _enter(self, module: nn.Module, _args: Any) -> None:
        if id(module) in self._paths and threading.get_ident() == self._thread:
            self._running.append(id(module))
            self._tell()

    def _leave(self, module: nn.Module, _args: Any, _result: Any) -> None:
        if threading.get_ident() != self._thread or id(module) not in self._running:
            return
        while self._running.pop() != id(module):  # modules inside that failed
            pass
        self._tell()

    def _tell(self) -> None:
        self._region.set_module(self._paths[self._running[-1]] if self._running else "")
