"""What a region keeps: policies, by their names here and in jax.checkpoint_policies.

A policy says of every value that an operator makes whether to keep it, if backward needs it, or to
compute it again. Everything that takes a policy takes its text as well, and a function of yours::

    remat.checkpoint(block, x, policy=policies.dots_saveable | policies.names("attn_out"))
    remat.checkpoint(block, x, policy="dots_saveable | names(attn_out)")
    remat.checkpoint(block, x, policy=lambda facts: facts.bytes < 2**20)

``a | b`` keeps what either keeps, ``a & b`` what both keep, ``a - b`` what a keeps and b does not.
Patterns are names with ``*`` for any characters and ``?`` for one. docs/policies.md has a table.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import torch

from remat import _C
from remat._budget import as_bytes
from remat._C import Facts, Policy

PolicyLike = Policy | str | Callable[[Facts], bool] | None

everything_saveable = Policy("everything_saveable")
"""Keeps every value, as without remat."""

nothing_saveable = Policy("nothing_saveable")
"""Keeps no value; only what the region was given is held. The default."""

dots_saveable = checkpoint_dots = Policy("dots_saveable")
"""Keeps the results of matrix products and convolutions: dear to compute, few beside the rest."""

dots_with_no_batch_dims_saveable = Policy("dots_with_no_batch_dims_saveable")
"""Keeps the results of matrix products that are not batched: of a transformer the projections, not
the attention's T x T products."""

checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def keep_ops(*patterns: Any) -> Policy:
    """Keeps the results of the named operators: ``keep_ops("mm", "aten::*softmax*")``.

    Patterns, operators such as torch.ops.aten.mm, or lists of them. A pattern may leave out the
    namespace ("mm" is "aten::mm") and the overload ("add" is every add). Operators are named as
    ``region.tape()`` prints them: linear is addmm or mm. ValueError on no or an empty pattern.
    """
    return _C.keep_ops([_operator_name(pattern) for pattern in _flat(patterns)])


def names(*patterns: str) -> Policy:
    """Keeps the values that :func:`remat.checkpoint_name` gave one of these names."""
    return _C.names(_flat(patterns))


def modules(*patterns: str) -> Policy:
    """Keeps what is made while one of these modules runs, by its path or the end of it.

    "layers.3.mlp.up" is named by itself, "layers.*.mlp", "mlp", "up" and "*.mlp.*". Paths start at
    the module that is checkpointed, at the layers that :func:`remat.segment` got, or at
    ``remat.region(module=...)``; a region that knows no module raises ValueError when it closes.
    """
    return _C.modules(_flat(patterns))


def at_least(size: int | str) -> Policy:
    """Keeps values of at least that many bytes: ``at_least("1MiB")``."""
    return _C.at_least(as_bytes(size))


def at_most(size: int | str) -> Policy:
    """Keeps values of at most that many bytes."""
    return _C.at_most(as_bytes(size))


def every(k: int) -> Policy:
    """Keeps the results of the k-th, 2k-th, ... call of each operator, counted in each region.

    ``keep_ops("mm") & every(2)`` keeps every second mm.
    """
    return _C.every(k)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keeps named values only, and only among the names given."""
    return _C.save_only_these_names(_flat(names_which_can_be_saved))


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keeps named values only, those with the names given excluded."""
    return _C.save_any_names_but_these(_flat(names_not_to_save))


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keeps any values, not just named ones, those with the names given excluded."""
    return _C.save_anything_except_these_names(_flat(names_not_to_save))


def save_from_both_policies(policy_1: PolicyLike, policy_2: PolicyLike) -> Policy:
    """Keeps what either keeps: ``policy_1 | policy_2``."""
    return (as_policy(policy_1) or nothing_saveable) | (as_policy(policy_2) or nothing_saveable)


def offload_dot_with_no_batch_dims(*_: Any, **__: Any) -> Policy:
    """Not there yet: raises ValueError, which says what to use instead."""
    return _C.refuse_offload("offload_dot_with_no_batch_dims")


def save_and_offload_only_these_names(*_: Any, **__: Any) -> Policy:
    """Not there yet: raises ValueError, which says what to use instead."""
    return _C.refuse_offload("save_and_offload_only_these_names")


def as_policy(policy: PolicyLike) -> Policy | None:
    """The policy that the user means; None is the default. TypeError, ValueError."""
    if policy is None or isinstance(policy, Policy):
        return policy
    if isinstance(policy, str):
        return _parsed(policy)
    if callable(policy):
        return Policy(policy)
    raise TypeError(
        "remat: a policy is one of remat.policies, its text, a function of a value's facts or "
        f"None, not {type(policy).__name__}"
    )


def picklable(policy: PolicyLike) -> PolicyLike:
    """The same policy in a form that pickle takes: its text. TypeError where it has none."""
    if not isinstance(policy, Policy):
        return policy
    text = str(policy)
    try:
        is_text = str(Policy(text)) == text
    except ValueError:
        is_text = False
    if not is_text:
        raise TypeError(
            f"remat: the policy {text} is made of a function and cannot be pickled; give the "
            "function itself, if it can be"
        )
    return text


_parsed = lru_cache(maxsize=128)(Policy)  # a region is opened for every layer of every step


def _flat(patterns: Iterable[Any]) -> list[Any]:
    flat: list[Any] = []
    for pattern in patterns:
        flat.extend(pattern if isinstance(pattern, (list, tuple)) else [pattern])
    return flat


def _operator_name(operator: Any) -> Any:
    """ "aten::add.Tensor" of torch.ops.aten.add.Tensor, "aten::add" of torch.ops.aten.add."""
    if isinstance(operator, torch._ops.OpOverloadPacket):
        return operator._qualified_op_name
    return operator.name() if isinstance(operator, torch._ops.OperatorBase) else operator
