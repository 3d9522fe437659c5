"""Verify mode: every recomputed value is compared with what forward made."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from remat import _C


@contextmanager
def verify() -> Iterator[None]:
    """Regions opened inside compare every element that backward recomputes with forward's::

        with remat.verify():
            loss = model(x)     # with remat.checkpoint, regions, or a budget
        loss.backward()         # raises at the first value that is not what forward made

    The error names the operator, the module, the shape, the first element that differs, and the
    cause: something from outside that was changed in between, a value that was written by something
    that torch does not see, or a kernel that does not repeat its own results. Fingerprints take 3
    percent of the bytes that forward makes, or less, and the time to read them: a mode to find out
    whether a model can be trained with remat, not to train it in.
    """
    scope, names = _C.VerifyScope(), _ModuleNames()
    scope.enter()
    try:
        yield
    finally:
        scope.exit()
        names.remove()


class _ModuleNames:
    """Tells the library which module runs."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._running: list[nn.Module] = []
        self._names: dict[int, str] = {}
        self._handles = (
            nn.modules.module.register_module_forward_pre_hook(self._enter),
            nn.modules.module.register_module_forward_hook(self._leave, always_call=True),
        )

    def _enter(self, module: nn.Module, _args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if not self._running:
            self._names = {id(inner): name for name, inner in module.named_modules()}
        self._running.append(module)
        self._tell()

    def _leave(self, _module: nn.Module, _args: Any, _result: Any) -> None:
        if self._running and threading.get_ident() == self._thread:
            self._running.pop()
            self._tell()

    def _tell(self) -> None:
        if not self._running:
            _C.set_module_name("")
            return
        module = self._running[-1]
        names = (self._names.get(id(module)), type(module).__name__)
        _C.set_module_name(" ".join(filter(None, names)))

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        _C.set_module_name("")
