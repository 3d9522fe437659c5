"""Parameters whose storage exists only around use: sharded training frees them after forward."""

import contextlib
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.utils.weak import WeakIdKeyDictionary

from remat import _C

Release = Callable[[], None]
Way = Callable[[torch.Tensor], Release | None]


class GatherHandle:
    """Undoes :func:`gather` by its ``remove()``."""

    def __init__(self, key: int) -> None:
        self._key = key

    def remove(self) -> None:
        """The function is not asked any more. A second call does nothing."""
        _C.remove_gather(self._key)


def gather(
    function: Callable[[torch.Tensor], AbstractContextManager[Any] | None],
) -> GatherHandle:
    """Says how a parameter that was freed after forward is brought back for a recomputation::

        @remat.gather
        def gathered(parameter):
            return deepspeed.zero.GatheredParameters([parameter])

    Backward asks when it recomputes from a parameter that has not its bytes: its storage is empty,
    or it shows a shard. FSDP (both versions) and DeepSpeed ZeRO-3 need no such function. Neither
    does a module whose own forward pre-hooks fill its parameters: they are called again, until one
    has, and its forward hooks after the recomputation, until one has freed it.

    Args:
        function: takes the parameter, and returns a context manager inside which it has its
            storage, with the shape and values that forward read; or None where it is not its to
            fill. Called on the thread that runs backward, with nothing recorded. It may
            communicate: ranks that run the same program ask in the same order. Of several
            functions the last added is asked first.

    Returns a handle whose ``remove()`` undoes it.
    """

    def fill(parameter: torch.Tensor) -> Release | None:
        context = function(parameter)
        if context is None:
            return None
        context.__enter__()
        return lambda: context.__exit__(None, None, None)

    return GatherHandle(_C.add_gather(fill))


def _fill(parameter: torch.Tensor) -> Release | None:
    """Ways that need no declaration."""
    if hasattr(parameter, "ds_id"):
        return _fill_zero3(parameter)
    known = _known_ways.get(parameter)
    release = known(parameter) if known is not None else None
    if release is not None:
        return release
    for way in _search(parameter):
        release = way(parameter)
        if release is not None:
            _known_ways[parameter] = way
            return release
    return None


_known_ways = WeakIdKeyDictionary()


def _search(parameter: torch.Tensor) -> Iterator[Way]:
    """Ways that modules of this process offer, those of sharding libraries first.

    Modules are found among Python's objects: it takes time, once a parameter, and only where
    backward could not go on without it.
    """
    modules = [found for found in gc.get_objects() if issubclass(type(found), nn.Module)]
    for module in modules:
        if _is_fsdp2_of(module, parameter):
            yield _on(module, _fill_fsdp2)
        elif _is_fsdp1_of(module, parameter):
            yield _on(module, _fill_fsdp1)
    for module in _owners(parameter, modules):
        yield _on(module, _fill_by_hooks)


def _on(module: nn.Module, fill: Callable[[Any, torch.Tensor], Release | None]) -> Way:
    """The way is remembered and must not keep the module alive."""
    weak = weakref.ref(module)

    def way(parameter: torch.Tensor) -> Release | None:
        alive = weak()
        return None if alive is None else fill(alive, parameter)

    return way


def _owners(parameter: torch.Tensor, modules: list[nn.Module]) -> list[nn.Module]:
    """Modules that have the parameter, then those that contain these, level by level."""
    level = [m for m in modules if any(p is parameter for p in m._parameters.values())]
    owners: list[nn.Module] = []
    while level:
        owners += level
        inner = {id(module) for module in owners}
        outer = [m for m in modules if any(id(child) in inner for child in m._modules.values())]
        level = [module for module in outer if id(module) not in inner]
    return owners


# ---- DeepSpeed ZeRO-3


def _fill_zero3(parameter: torch.Tensor) -> Release:
    context = sys.modules["deepspeed"].zero.GatheredParameters([parameter])
    context.__enter__()
    return lambda: context.__exit__(None, None, None)


# ---- FSDP


def _is_fsdp2_of(module: Any, parameter: torch.Tensor) -> bool:
    groups = _fsdp2_groups(module)
    members = (member for group in groups for member in group.fsdp_params)
    return any(getattr(member, "_unsharded_param", None) is parameter for member in members)


def _fsdp2_groups(module: Any) -> list[Any]:
    if not hasattr(module, "_get_fsdp_state"):
        return []
    return module._get_fsdp_state()._fsdp_param_groups


def _fill_fsdp2(module: Any, parameter: torch.Tensor) -> Release | None:
    if not _is_fsdp2_of(module, parameter):
        return None
    prefetched = any(group._all_gather_result is not None for group in _fsdp2_groups(module))
    module.unshard()
    # What FSDP itself has asked for it will use and free.
    return (lambda: None) if prefetched else module.reshard


def _is_fsdp1_of(module: Any, parameter: torch.Tensor) -> bool:
    handle = getattr(module, "_handle", None)
    flat = getattr(handle, "flat_param", None)
    if flat is None or not hasattr(module, "_unshard_stream"):
        return False
    return flat is parameter or any(p is parameter for p in getattr(flat, "_params", None) or ())


def _fill_fsdp1(module: Any, parameter: torch.Tensor) -> Release | None:
    from torch.distributed.fsdp import _runtime_utils as fsdp

    if not _is_fsdp1_of(module, parameter):
        return None
    handle = module._handle
    prefetched = handle._prefetched
    if not prefetched:
        fsdp._unshard(module, handle, module._unshard_stream, module._pre_unshard_stream)
    module._device_handle.current_stream().wait_stream(module._unshard_stream)
    return (lambda: None) if prefetched else lambda: fsdp._reshard(module, handle, True)


# ---- Hooks of the module's own


def _fill_by_hooks(module: nn.Module, parameter: torch.Tensor) -> Release | None:
    freed = _state(parameter)
    failures = []
    for key, hook in list(module._forward_pre_hooks.items()):
        if getattr(hook, "__module__", "").startswith("remat."):
            continue  # it would open a region
        keywords = ({},) if key in module._forward_pre_hooks_with_kwargs else ()
        try:
            hook(module, (), *keywords)
        except Exception as failure:
            failures.append(failure)
        if _state(parameter) != freed and parameter.untyped_storage().nbytes() > 0:
            return lambda: _free_by_hooks(module, parameter, freed)
    if failures:
        raise RuntimeError(
            f"remat: no forward pre-hook of {type(module).__name__} brought back a parameter that "
            "backward recomputes from, and one failed. Say how with remat.gather."
        ) from failures[-1]
    return None


def _free_by_hooks(module: nn.Module, parameter: torch.Tensor, freed: tuple[Any, ...]) -> None:
    """Whoever gathers may want to keep what it filled until its own backward hook frees it."""
    for key, hook in list(module._forward_hooks.items()):
        if _state(parameter) == freed:
            return
        if not getattr(hook, "__module__", "").startswith("remat."):
            keywords = ({},) if key in module._forward_hooks_with_kwargs else ()
            with contextlib.suppress(Exception):  # one that needs the output, and frees nothing
                hook(module, (), *keywords, None)


def _state(parameter: torch.Tensor) -> tuple[Any, ...]:
    return parameter.shape, parameter.untyped_storage().nbytes()


_C.add_gather(_fill)
