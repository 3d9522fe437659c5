"""The call form, a drop-in for torch.utils.checkpoint."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch._guards import TracingContext
from torch.utils import checkpoint as torch_checkpoint

from remat import _C
from remat._modules import Modules, module_of
from remat._region import as_segments, region
from remat._selective import selective
from remat._verify import verify
from remat.policies import PolicyLike, as_policy

T = TypeVar("T")

# What install() replaces, and what torch.compile is handed to.
_torchs_checkpoint = torch_checkpoint.checkpoint

_no_context = torch_checkpoint.noop_context_fn
_is_compiling = torch.compiler.is_compiling

_DETERMINISM_CHECKS = ("default", "none", "verify")


def checkpoint(
    function: Callable[..., T],
    *args: Any,
    policy: PolicyLike = None,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    context_fn: Any = _no_context,
    determinism_check: str = "default",
    debug: bool = False,
    **kwargs: Any,
) -> T:
    """Calls ``function(*args, **kwargs)`` and recomputes in backward what it would have saved.

    The drop-in for ``torch.utils.checkpoint.checkpoint``. ``function`` is never called again:
    backward repeats the recorded operators that it needs, below Python. So BatchNorm statistics,
    caches, counters and hooks change once, random operators repeat their own draws, and gradients
    are equal bit for bit.

    Args:
        function: any callable; tensors it captures and parameters it uses are treated like
            arguments.
        policy: what to keep, see :class:`remat.region`. Policies by module see paths from
            ``function`` on, where it is a module or a module's method.
        use_reentrant, preserve_rng_state, early_stop: accepted and without effect. There is no
            second call that could be reentrant or stop early, and random operators always repeat
            what they drew.
        determinism_check: "default": shapes, dtypes and samples of every recomputed tensor are
            compared; "none": the same, since it costs next to nothing; "verify": every element of
            everything that is recomputed is, see :func:`remat.verify`.
        debug: True is "verify", whose errors say what differs, where and why.
        context_fn: torch's selective checkpointing: what ``create_selective_checkpoint_contexts``
            was given, a list of operators or a function, becomes the policy. A function is called
            once an operator, with ``is_recompute`` False. Other contexts are a ValueError: there is
            no second call for the second one to be around.

    Raises:
        ValueError: for another context_fn, an unknown determinism_check and unknown policy names.
        RuntimeError: in backward, if something that must be read again was changed in between.
    """
    if context_fn is not _no_context or determinism_check != "default" or debug:
        options = {
            "context_fn": context_fn,
            "determinism_check": determinism_check,
            "debug": debug,
        }
        if _is_compiling() or TracingContext.try_get() is not None:
            # The compiler itself calls what install() replaced, with options of its own.
            return _torchs_checkpoint(function, *args, use_reentrant=False, **options, **kwargs)
        return _with_options(function, args, kwargs, policy, **options)
    if _is_compiling():
        return _torchs_checkpoint(function, *args, use_reentrant=False, **kwargs)
    if policy is None:
        return _C.call_in_region(function, args, kwargs, None, 1)
    return _call(function, args, kwargs, as_policy(policy), module_of(function))


def _with_options(
    function: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: PolicyLike,
    context_fn: Any,
    determinism_check: str,
    debug: bool,
) -> T:
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(
            f"remat: determinism_check is one of {_DETERMINISM_CHECKS}, not {determinism_check!r}"
        )
    if context_fn is not _no_context:
        if policy is not None:
            raise ValueError("remat: give a policy or a context_fn, which is one, not both")
        function, policy = selective(context_fn, function)
    if not debug and determinism_check != "verify":
        return checkpoint(function, *args, policy=policy, **kwargs)
    with verify():
        return checkpoint(function, *args, policy=policy, **kwargs)


def _call(
    function: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: _C.Policy | None,
    module: Modules | None,
) -> T:
    if policy is None or not policy.wants_module or module is None:
        return _C.call_in_region(function, args, kwargs, policy, 1)
    with region(policy, 1, module):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: torch.nn.Sequential | Iterable[Callable[..., Any]],
    segments: int | None = None,
    input: Any = None,  # noqa: A002  (torch's name)
    use_reentrant: bool | None = None,
    policy: PolicyLike = None,
    **kwargs: Any,
) -> Any:
    """Runs ``functions`` one after the other on ``input``, cut evenly into ``segments`` regions.

    The drop-in for ``torch.utils.checkpoint.checkpoint_sequential``. ``segments`` is ceil(sqrt(n))
    by default, so that memory grows with sqrt(n) (Chen et al. 2016, arXiv 1604.06174); more
    segments than functions are as many as functions.

    Raises:
        ValueError: if there is no function, segments is not positive, or a keyword is unknown.
    """
    kwargs.pop("preserve_rng_state", None)
    if kwargs:
        raise ValueError(f"remat: checkpoint_sequential got unexpected keywords {sorted(kwargs)}")
    layers = list(functions.children() if isinstance(functions, torch.nn.Sequential) else functions)
    for part in even_parts(layers, segments):
        input = _call(_run, (part, input), {}, as_policy(policy), layers)  # noqa: A001
    return input


def even_parts(layers: list[Any], segments: int | None) -> list[list[Any]]:
    """Cuts ``layers`` into lists of nearly equal length; ceil(sqrt(n)) of them by default."""
    if not layers:
        raise ValueError("remat: there are no layers to run")
    count = min(as_segments(segments) or math.ceil(math.sqrt(len(layers))), len(layers))
    bounds = [i * len(layers) // count for i in range(count + 1)]
    return [layers[begin:end] for begin, end in itertools.pairwise(bounds)]


def _run(layers: list[Callable[..., Any]], value: Any) -> Any:
    for layer in layers:
        value = layer(value)
    return value
