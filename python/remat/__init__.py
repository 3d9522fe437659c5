"""Train in the memory you have: exact recomputation of activations for PyTorch.

Training keeps every intermediate of the forward pass for backward. remat keeps some of them and
computes the others again, operator by operator, with gradients equal bit for bit and no side effect
repeated::

    y = remat.checkpoint(block, x)          # a drop-in for torch.utils.checkpoint.checkpoint
    with remat.region():                    # the same without a function
        loss = model(x).sum()
    remat.install()                         # every gradient_checkpointing=True uses remat
    remat.enable(model, "2GiB")             # a byte budget instead of hand-picked layers
"""

import torch  # noqa: F401  (loads libtorch before the extension needs it)
from torch.optim.optimizer import register_optimizer_step_pre_hook

from remat import _C, _pointers, _saved_objects, _testing, _wrappers, memory, policies  # noqa: F401
from remat._budget import budget, disable, enable
from remat._C import DoesNotFit, Facts, Policy, __version__
from remat._checkpoint import checkpoint, checkpoint_sequential
from remat._gather import gather
from remat._install import install, uninstall
from remat._name import checkpoint_name
from remat._region import region
from remat._replayable import replayable
from remat._segment import segment
from remat._stats import reset_stats, stats
from remat._verify import verify
from remat.policies import everything_saveable, keep_ops, nothing_saveable

_saved_objects.keep_identity()
_pointers.note_exports()
# Pipelined micro-batches: what one of them still has to read, another's step may change.
register_optimizer_step_pre_hook(lambda *_: _C.copy_before_a_step())

__all__ = [
    "DoesNotFit",
    "Facts",
    "Policy",
    "__version__",
    "budget",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_sequential",
    "disable",
    "enable",
    "everything_saveable",
    "gather",
    "install",
    "keep_ops",
    "memory",
    "nothing_saveable",
    "policies",
    "region",
    "replayable",
    "reset_stats",
    "segment",
    "stats",
    "uninstall",
    "verify",
]
