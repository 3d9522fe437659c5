"""The call form, a drop-in for torch.utils.checkpoint."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch.utils import checkpoint as torch_checkpoint

from remat import _C
from remat._compiled import compiler_of_calls, eagerly, not_compiled_itself
from remat._keywords import is_the_functions
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
_is_dynamo = torch.compiler.is_dynamo_compiling

_DETERMINISM_CHECKS = ("default", "none", "verify")


class _Unsaid:
    """The default of `policy`: a None that is given may be meant for the function."""

    def __repr__(self) -> str:
        return "None"


_UNSAID: Any = _Unsaid()


@not_compiled_itself
def checkpoint(
    function: Callable[..., T],
    *args: Any,
    policy: PolicyLike = _UNSAID,
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
            ``function`` on, where it is a module or a module's method. A function whose signature
            names a parameter ``policy`` gets it instead, as with torch's checkpoint, and so does
            one with ``**kwargs`` if the value is no policy, a module for example. A
            :class:`remat.Policy`, such as ``remat.policies.dots_saveable``, is never the
            function's.
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
    if policy is _UNSAID:
        policy = None
    elif is_the_functions(function, args, policy):
        kwargs["policy"], policy = policy, None
    if _is_compiling():
        return _compiled(function, args, kwargs, policy, context_fn, determinism_check, debug)
    if compiler_of_calls() is not None:
        call = eagerly(_with_options)
        return call(function, args, kwargs, policy, context_fn, determinism_check, debug)
    if context_fn is not _no_context or determinism_check != "default" or debug:
        return _with_options(function, args, kwargs, policy, context_fn, determinism_check, debug)
    if policy is None:
        return _C.call_in_region(function, args, kwargs, None, 1)
    return _call(function, args, kwargs, policy)


def _compiled(
    function: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: PolicyLike,
    context_fn: Any,
    determinism_check: str,
    debug: bool,
) -> T:
    """What the compiler captures: torch's checkpoint, which it calls in the end as well, with
    contexts of its own, also where install() put remat's in its place."""
    if not _is_dynamo():
        as_policy(policy)  # what is none was meant for the function, which is captured already
        return _torchs_checkpoint(
            function, *args, use_reentrant=False, context_fn=context_fn, early_stop=False, **kwargs
        )
    if debug or determinism_check == "verify":
        torch._dynamo.graph_break()  # compiled code makes nothing that could be compared
    if context_fn is not _no_context:  # by its absence alone the compiler knows the default
        kwargs["context_fn"] = context_fn
    # Dynamo knows torch's checkpoint by its name in torch.utils.checkpoint, whatever is there.
    return torch_checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)


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
    with verify() if debug or determinism_check == "verify" else contextlib.nullcontext():
        return _call(function, args, kwargs, policy)


def _call(
    function: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    policy: PolicyLike,
    module: Modules | None = None,
) -> T:
    policy = as_policy(policy)
    if policy is not None and policy.wants_module:
        module = module_of(function) if module is None else module
        if module is not None:
            with region(policy, 1, module):
                return function(*args, **kwargs)
    return _C.call_in_region(function, args, kwargs, policy, 1)


@not_compiled_itself
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
    run_part = _captured_part if _is_dynamo() else _part
    for part in even_parts(layers, segments):
        input = run_part(part, input, policy, layers)  # noqa: A001
    return input


def _part(part: list[Any], value: Any, policy: PolicyLike, layers: list[Any]) -> Any:
    call = _call if compiler_of_calls() is None else eagerly(_call)
    return call(_run, (part, value), {}, policy, layers)


def _captured_part(part: list[Any], value: Any, *_: Any) -> Any:
    return torch_checkpoint.checkpoint(functools.partial(_run, part), value, use_reentrant=False)


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
