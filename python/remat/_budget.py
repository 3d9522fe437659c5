"""Training in a byte budget."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch

from remat import _C
from remat._open import calls_under_way, settle


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


_sessions_lock = threading.Lock()


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
        sizes = (0 if size is None else as_bytes(size) for size in (activations, memory))
        self.__setstate__((*sizes, list(plans)))

    def __getstate__(self) -> tuple[int, int, list[str]]:
        return self._given

    def __setstate__(self, given: tuple[int, int, list[str]]) -> None:
        """A copy, or what was pickled and loaded, has the same budget and no step yet."""
        self._given = given
        _C.install_allocator()
        self._last = _C.Session(*given)
        self._sessions: list[tuple[threading.Thread | None, _C.Session]] = [(None, self._last)]

    def _session(self) -> _C.Session:
        """This thread's: a session is not thread safe. That of a thread that ended is handed on."""
        me = threading.current_thread()
        with _sessions_lock:
            for index, (owner, session) in enumerate(self._sessions):
                if owner is me or owner is None or not owner.is_alive():
                    self._sessions[index] = (me, session)
                    return session
            session = _C.Session(*self._given)
            self._sessions.append((me, session))
            return session

    def __enter__(self) -> "budget":
        self._begin()
        return self

    def _begin(self) -> None:
        settle()
        self._last = self._session()
        self._last.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            settle()
            self._session().end()
        except RuntimeError:
            if error is None:  # the user's own error says more
                raise

    def report(self) -> Report:
        """What became of the steps so far, of the thread that began one last."""
        return Report(**self._last.report())

    def plan(self) -> str | None:
        """The plan of the last step as JSON (docs/planner.md); None where it had none."""
        return self._last.plan()

    def trace(self) -> str | None:
        """The step that was measured last, in the format that `remat plan` reads (docs/planner.md);
        None where none was."""
        return self._last.trace()


class _Hooks:
    """Begins a step whenever the outermost call of a module begins.

    It is found by the module's hooks, and goes with them into a copy or a pickle.
    """

    def __init__(self, model: torch.nn.Module, fit: budget) -> None:
        self.fit = fit
        self._handle = model.register_forward_pre_hook(self._enter)

    def _enter(self, model: torch.nn.Module, _args: Any) -> None:
        if not torch.is_grad_enabled():
            return
        # Counted on the stack: nothing is left of a call that was interrupted, or another thread's.
        if torch.compiler.is_compiling() or calls_under_way(model) <= 1:
            self.fit._begin()

    def remove(self) -> None:
        self._handle.remove()
        self.fit._session().end()


def _hooks_of(model: torch.nn.Module) -> _Hooks | None:
    owners = (getattr(hook, "__self__", None) for hook in model._forward_pre_hooks.values())
    return next((owner for owner in owners if isinstance(owner, _Hooks)), None)


def enable(
    model: torch.nn.Module,
    budget: str | int | None = None,
    *,
    memory: str | int | None = None,
    plans: Sequence[str] = (),
) -> budget:
    """Trains the model in a budget: every call of it begins a step, which ends with the next call.

    Takes what :class:`budget` takes and returns one, for its report. Evaluation (no grad) is left
    alone, also on another thread. A step that fits no budget raises DoesNotFit at the next call. A
    copy of the model, or one that was pickled and loaded, trains in a budget of its own.

    Raises:
        TypeError: the model is no torch.nn.Module.
        ValueError: the model has a budget already, and what :class:`budget` raises.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"remat: enable takes a torch.nn.Module, not {type(model).__name__}; around other code "
            "put `with remat.budget(...)`"
        )
    if _hooks_of(model) is not None:
        raise ValueError("remat: the model has a budget already; call remat.disable(model) first")
    return _Hooks(model, _budget(budget, memory=memory, plans=plans)).fit


def disable(model: torch.nn.Module) -> None:
    """Takes the model's budget off. Does nothing where it has none."""
    hooks = _hooks_of(model)
    if hooks is not None:
        hooks.remove()


_budget = budget  # the parameter of enable() has the same name
