"""Training in a byte budget."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from remat import _C


def as_bytes(size: str | int) -> int:
    """The number of bytes of 2147483648, "2GiB", "2G" (the same) or "2000MB".

    Raises ValueError where it is none of these, or not positive.
    """
    try:
        return _C.parse_bytes(str(size))
    except ValueError:
        raise ValueError(
            f'remat: "{size}" is no amount of memory; write bytes, "2GiB" or "2000MB"'
        ) from None


@dataclass(frozen=True)
class Report:
    """What became of the steps under a budget so far. Bytes are those of CPU tensors."""

    steps: int
    followed: int  #: steps whose backward went by a plan from end to end
    plans: int  #: one for each sequence of operators and sizes that was met
    budget_bytes: int  #: for activations, of the last step
    planned_peak: int  #: as simulated, of the plan of the last step; 0: it had none
    measured_peak: int  #: over what was live when the last step began
    recompute_percent: float  #: of forward and backward, of the plan of the last step
    plan_seconds: float  #: spent on planning, all plans together


class budget:  # noqa: N801  (used like a function, as torch.no_grad is)
    """Keeps training steps within a byte budget, with the least recomputation that is found::

        fit = remat.budget("2GiB")
        for batch in batches:
            with fit:
                loss = model(batch).loss
                loss.backward()

    The first step of a kind (a sequence of operators and sizes) keeps nothing and is measured;
    later ones follow a plan. Gradients are plain training's, bit for bit, also where a step leaves
    its plan. Recording ends where backward begins: one forward and one backward pass a step.

    Args:
        activations: what a step may add to the tensors that are alive when it begins: saved
            tensors, gradients, temporaries. Bytes, or a size such as "2GiB", "2G" or "2000MB".
        memory: instead, all CPU tensors that are alive at any time of the step, parameters and
            optimizer included. Counting starts with the first use of :mod:`remat.memory` or of this
            class: call remat.memory.install() before the model is made.
        plans: what :meth:`plan` gave before, here or in another run. A step that one of them is
            for follows it where it fits; others are planned.

    Raises:
        ValueError: not exactly one of the two is given, or it is no size.
        RuntimeError: a text of `plans` is no plan.
        DoesNotFit: (a RuntimeError) on leaving the first step, if no plan fits; its text and its
            least_bytes name the least budget that does.
    """

    def __init__(
        self,
        activations: str | int | None = None,
        *,
        memory: str | int | None = None,
        plans: Sequence[str] = (),
    ) -> None:
        if (activations is None) == (memory is None):
            raise ValueError("remat: give a budget of either activations or memory")
        _C.install_allocator()
        self._session = _C.Session(
            0 if activations is None else as_bytes(activations),
            0 if memory is None else as_bytes(memory),
            list(plans),
        )

    def __enter__(self) -> "budget":
        self._session.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._session.end()
        except RuntimeError:
            if error is None:  # the user's own error says more
                raise

    def report(self) -> Report:
        """What became of the steps so far."""
        return Report(**self._session.report())

    def plan(self) -> str | None:
        """The plan of the last step as JSON (docs/planner.md); None where it had none."""
        return self._session.plan()

    def trace(self) -> str | None:
        """The step that was measured last, in the format that `remat plan` reads (docs/planner.md);
        None where none was."""
        return self._session.trace()


class _Hooks:
    """Begins a step whenever the outermost call of a module begins."""

    def __init__(self, model: torch.nn.Module, fit: budget) -> None:
        self.fit = fit
        self._depth = 0
        self._handles = [
            model.register_forward_pre_hook(self._enter),
            model.register_forward_hook(self._leave, always_call=True),
        ]

    def _enter(self, *_: Any) -> None:
        self._depth += 1
        if self._depth == 1 and torch.is_grad_enabled():
            self.fit._session.begin()

    def _leave(self, *_: Any) -> None:
        self._depth -= 1

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Hooks":
        return self  # a copy of the model trains in the same budget

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self.fit._session.end()


_enabled: "weakref.WeakKeyDictionary[torch.nn.Module, _Hooks]" = weakref.WeakKeyDictionary()


def enable(
    model: torch.nn.Module,
    budget: str | int | None = None,
    *,
    memory: str | int | None = None,
    plans: Sequence[str] = (),
) -> budget:
    """Trains the model in a budget: every call of it begins a step, which ends with the next call.

    Takes what :class:`budget` takes and returns one, for its report. Evaluation (no grad) is left
    alone. A step that fits no budget raises DoesNotFit at the next call. ValueError if the model
    has a budget already.
    """
    if model in _enabled:
        raise ValueError("remat: the model has a budget already; call remat.disable(model) first")
    hooks = _Hooks(model, _budget(budget, memory=memory, plans=plans))
    _enabled[model] = hooks
    return hooks.fit


def disable(model: torch.nn.Module) -> None:
    """Takes the model's budget off. Does nothing where it has none."""
    hooks = _enabled.pop(model, None)
    if hooks is not None:
        hooks.remove()


_budget = budget  # the parameter of enable() has the same name
