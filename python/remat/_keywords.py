"""Whose the keyword ``policy`` is: remat's, or the user's function's."""

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from torch import nn

from remat._C import Policy


def is_the_functions(function: Callable[..., Any], args: tuple[Any, ...], policy: Any) -> bool:
    """Whether ``policy=`` is meant for the function: its signature names that parameter, or the
    value is no policy at all and the function takes any keyword.

    A :class:`remat.Policy` is always remat's. So is a text that only ``**kwargs`` would take:
    layers of transformers hand on whatever they get.
    """
    return not isinstance(policy, Policy) and _takes(function, len(args), _may_be_ours(policy))


def _may_be_ours(policy: Any) -> bool:
    if policy is None or isinstance(policy, str):
        return True
    return callable(policy) and not isinstance(policy, nn.Module)


def _takes(function: Callable[..., Any], given: int, by_name_only: bool) -> bool:
    """Whether the function, given so many arguments by position, takes a keyword ``policy``."""
    while isinstance(function, functools.partial):
        function, given = _inside(function, given)
    function = _signed(function)
    if isinstance(function, MethodType):
        function, given = function.__func__, given + 1
    if isinstance(function, FunctionType) and getattr(function, "__wrapped__", None) is None:
        # torch.compile can read the code of a function that it has seen made, not its signature.
        code = function.__code__
        last = code.co_argcount + code.co_kwonlyargcount
        first = min(max(given, code.co_posonlyargcount), code.co_argcount)
        is_named = "policy" in code.co_varnames[first:last]
        return is_named or not (by_name_only or code.co_flags & inspect.CO_VARKEYWORDS == 0)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin that does not say what it takes
        return False
    free = [p for i, p in enumerate(parameters) if p.kind in _ALWAYS_FREE or i >= given]
    if any(p.name == "policy" and p.kind in _BY_KEYWORD for p in free):
        return True
    return not by_name_only and any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)


_ALWAYS_FREE = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_BY_KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _inside(function: functools.partial[Any], given: int) -> tuple[Callable[..., Any], int]:
    bound, args = function.func, function.args
    if args and isinstance(args[0], nn.Module) and bound is nn.Module.__call__:
        return args[0], given + len(args) - 1
    return bound, given + len(args)


def _signed(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the signature: of a module its forward, however it is called and was compiled."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, nn.Module) and getattr(function, "__name__", "") in _CALLS:
        function = owner
    while isinstance(function, nn.Module):
        function = getattr(function, "_orig_mod", function.forward)
    return function


_CALLS = ("__call__", nn.Module.__call__.__name__)
