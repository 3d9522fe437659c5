"""Names of values, for policies."""

from typing import TypeVar

import torch
from torch.utils import _pytree as pytree

from remat import _C

T = TypeVar("T")


def checkpoint_name(x: T, name: str) -> T:
    """Names a value for policies and returns it as it is (jax.ad_checkpoint.checkpoint_name)::

        h = remat.checkpoint_name(self.attention(h), "attn_out")
        ...
        remat.checkpoint(block, h, policy=remat.policies.names("attn_out"))

    Nothing is copied and autograd sees nothing of it; outside of regions it does nothing. Views of
    one tensor show one value. Many values may have the same name, and a value several.

    Args:
        x: a tensor, or tensors in lists, tuples and dicts.
        name: what ``region.tape()`` prints and policies see. ValueError if it is empty.
    """
    if torch.compiler.is_compiling():
        return x
    for leaf in [x] if isinstance(x, torch.Tensor) else pytree.tree_leaves(x):
        if isinstance(leaf, torch.Tensor):
            _C.name(leaf, name)
    return x
