"""What a region keeps."""

from collections.abc import Iterable

from remat import _C

PolicyLike = _C.Policy | str | None

everything_saveable = _C.policy_by_name("everything_saveable")
"""Keeps every value, as without remat."""

nothing_saveable = _C.policy_by_name("nothing_saveable")
"""Keeps no value; only what the region was given is held. The default."""


def keep_ops(names: Iterable[str]) -> _C.Policy:
    """A policy that keeps the results of the named operators.

    A name may leave out the namespace ("mm" is "aten::mm") and the overload ("add" is every add).
    Raises ValueError on an empty list or name, TypeError on a bare string.
    """
    if isinstance(names, str):
        raise TypeError(f'remat.keep_ops takes a list of names: keep_ops(["{names}"])')
    return _C.keep_ops(list(names))


def as_policy(policy: PolicyLike) -> _C.Policy | None:
    """The policy that the user means by a name, a policy or None (the default)."""
    if policy is None or isinstance(policy, _C.Policy):
        return policy
    if isinstance(policy, str):
        return _C.policy_by_name(policy)
    raise TypeError(
        f"remat: a policy is a name, remat.keep_ops([...]) or None, not {type(policy).__name__}"
    )
