"""Regions around groups of layers of a model whose forward is not ours to change."""

import itertools
import sys
from typing import Any

import torch

from remat import _C
from remat._checkpoint import even_parts
from remat._modules import ModuleWatch, paths_of, watch_for
from remat.policies import PolicyLike, as_policy


class Segments:
    """Regions that module hooks open before the first layer of a group and close after its last."""

    def __init__(self, parts: list[list[torch.nn.Module]], policy: _C.Policy | None) -> None:
        self._policy = policy
        wants_module = policy is not None and policy.wants_module
        self._paths = paths_of(itertools.chain(*parts)) if wants_module else {}
        self._handles: list[Any] = []
        for part in parts:
            self._watch(part)

    def _watch(self, part: list[torch.nn.Module]) -> None:
        # Empty or one: a part does not contain itself.
        open_regions: list[tuple[_C.Region, ModuleWatch | None]] = []

        def begin(first: torch.nn.Module, _args: Any) -> None:
            end()  # a part that failed half way
            region = _C.Region(self._policy, 1)
            # The hooks of a module that is being called are not those of the watch yet.
            watch = watch_for(region, self._paths, running=first) if self._paths else None
            open_regions.append((region, watch))

        def end(*_: Any) -> None:
            while open_regions:
                region, watch = open_regions.pop()
                if watch is not None:
                    watch.close()
                region.close()

        def end_on_failure(_module: Any, _args: Any, result: Any) -> None:
            if result is None and sys.exc_info()[0] is not None:
                end()

        self._handles.append(part[0].register_forward_pre_hook(begin, prepend=True))
        for layer in part[:-1]:
            self._handles.append(layer.register_forward_hook(end_on_failure, always_call=True))
        self._handles.append(part[-1].register_forward_hook(end, always_call=True))

    def remove(self) -> None:
        """Takes the hooks away: the model trains as before."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def segment(
    layers: torch.nn.ModuleList | list[torch.nn.Module],
    segments: int | None = None,
    policy: PolicyLike = None,
) -> Segments:
    """Puts regions around groups of consecutive layers, whoever calls them.

    For models whose forward runs ``layers`` in order, like the decoder layers of a language model::

        handle = remat.segment(model.model.layers)      # ceil(sqrt(n)) regions

    Args:
        layers: modules that forward calls one after the other, each once.
        segments: number of groups, as even as they can be; ceil(sqrt(n)) by default.
        policy: what each region keeps, see :class:`remat.region`.

    Returns a handle whose ``remove()`` undoes it.
    """
    return Segments(even_parts(list(layers), segments), as_policy(policy))
