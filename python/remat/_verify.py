"""Verify mode: every recomputed value is compared with what forward made."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from remat import _C
from remat._modules import ModuleWatch, paths_of


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
    scope, watch = _C.VerifyScope(), ModuleWatch(_Names().tell)
    scope.enter()
    try:
        yield
    finally:
        scope.exit()
        watch.close()
        _C.set_module_name("")


class _Names:
    """Tells the library how an error is to name the module that runs."""

    def __init__(self) -> None:
        self._root: nn.Module | None = None
        self._paths: dict[int, str] = {}

    def tell(self, running: list[nn.Module]) -> None:
        if not running:
            _C.set_module_name("")
            return
        if running[0] is not self._root:
            self._root = running[0]
            self._paths = paths_of(self._root)
        names = (self._paths.get(id(running[-1])), type(running[-1]).__name__)
        _C.set_module_name(" ".join(filter(None, names)))
