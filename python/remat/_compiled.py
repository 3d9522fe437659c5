"""torch.compile and code of remat's that it meets."""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

import torch
from torch._C._dynamo import eval_frame

F = TypeVar("F", bound=Callable[..., Any])

_SKIPPED = eval_frame._FrameExecStrategy(
    eval_frame._FrameAction.SKIP, eval_frame._FrameAction.DEFAULT
)

compiler_of_calls = eval_frame.get_eval_frame_callback
"""What compiles each function that this thread calls; None outside of compiled code."""


def not_compiled_itself(function: F) -> F:
    """Has the compiler run the function as it is where it cannot capture a call of it whole.

    Compiled by itself, the function would take what it calls for capturable again.
    """
    eval_frame.set_code_exec_strategy(cast(FunctionType, function).__code__, _SKIPPED)
    return function


@functools.cache
def eagerly(function: F) -> F:
    """The function, with nothing that it calls compiled, unless that was compiled before."""
    return torch.compiler.disable(function)
