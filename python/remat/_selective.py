"""torch's selective checkpointing: a context_fn that says what to keep, as a policy."""

from collections.abc import Callable
from typing import Any

from torch.utils import checkpoint as torch_checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, SelectiveCheckpointContext

from remat._name import checkpoint_name
from remat.policies import Policy, keep_ops, names, nothing_saveable

_KEPT = (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_NAME = "kept by context_fn"


def selective(
    context_fn: Callable[[], Any], function: Callable[..., Any]
) -> tuple[Callable[..., Any], Policy]:
    """The function to call instead, and the policy that keeps what context_fn would have kept.

    ValueError where it is not create_selective_checkpoint_contexts that made the contexts.
    """
    contexts = context_fn()
    forward = contexts[0] if isinstance(contexts, tuple) and contexts else None
    if not isinstance(forward, torch_checkpoint._CachingTorchDispatchMode):
        raise ValueError(
            "remat.checkpoint does not support this context_fn: its second context has no second "
            "call to be around. For what to keep, give create_selective_checkpoint_contexts or a "
            "policy, policy=remat.keep_ops('mm', ...); see remat.policies"
        )
    operators = _listed(context_fn)
    if operators is not None:
        return function, keep_ops(operators) if operators else nothing_saveable

    def watched(*args: Any, **kwargs: Any) -> Any:
        with _Asking(forward.policy_fn):
            return function(*args, **kwargs)

    return watched, names(_NAME)


def _listed(context_fn: Callable[[], Any]) -> list[Any] | None:
    """The operators of partial(create_selective_checkpoint_contexts, [...]), which nobody needs to
    be asked about; else None."""
    is_torchs = (
        getattr(context_fn, "func", None) is torch_checkpoint.create_selective_checkpoint_contexts
    )
    given = getattr(context_fn, "args", ()) if is_torchs else ()
    return given[0] if given and isinstance(given[0], list) else None


class _Asking(TorchDispatchMode):
    """Asks a policy function of torch's about each operator, as torch does, and names what it wants
    kept."""

    def __init__(self, policy_fn: Callable[..., Any]) -> None:
        super().__init__()
        self._policy_fn = policy_fn

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = operator(*args, **kwargs)
        if operator not in torch_checkpoint.SAC_IGNORED_OPS:
            context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
            if self._policy_fn(context, operator, *args, **kwargs) in _KEPT:
                checkpoint_name(result, _NAME)
        return result
