"""Declares that custom Functions and operators may be run again."""

import functools
from typing import Any, TypeVar

import torch

from remat import _C

T = TypeVar("T")


def replayable(declared: T) -> T:
    """Declares that a custom Function or operator only computes, so what it makes is recomputed::

        @remat.replayable
        class Scale(torch.autograd.Function): ...

        remat.replayable(torch.ops.mylib.rope)      # or its name, "mylib::rope"

    Without this, their results are kept: remat cannot see what they do besides computing.

    Of a ``torch.autograd.Function``, the operators that its ``forward`` calls are recorded like any
    others; ``forward`` itself is never run again. Of an operator, the call is recorded and
    repeated. It has to be a function of its arguments, write nothing but what its schema says, and
    draw no random numbers unless it takes a generator or has the tag ``nondeterministic_seeded``.
    :func:`remat.verify` shows whether that is so.

    Args:
        declared: a subclass of ``torch.autograd.Function``, an operator (``torch.ops.ns.name``, one
            overload of it, or what ``torch.library.custom_op`` returns), or the name of one. Every
            overload is declared.

    Returns what it was given.

    Raises:
        TypeError: if it is none of these.
        RuntimeError: if the operator is torch's own, which needs no declaration.
    """
    if isinstance(declared, type) and issubclass(declared, torch.autograd.Function):
        _declare_function(declared)
    else:
        _C.declare_replayable(_name_of(declared))
    return declared


def _declare_function(cls: Any) -> None:
    if "forward" in cls.__dict__ and hasattr(cls.forward, "_remat_replayable"):
        return
    forward = cls.forward

    @functools.wraps(forward)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        _C.open_function(cls.__name__)
        return forward(*args, **kwargs)

    recorded._remat_replayable = True  # type: ignore[attr-defined]
    cls.forward = staticmethod(recorded)


def _name_of(operator: Any) -> str:
    if isinstance(operator, str):
        return operator
    if isinstance(operator, torch._ops.OpOverload):
        operator = operator.overloadpacket
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return operator._qualified_op_name
    if isinstance(operator, torch.library.CustomOpDef):
        return operator._qualname
    raise TypeError(
        "remat.replayable takes a torch.autograd.Function, an operator or its name, not "
        f"{operator!r}"
    )
