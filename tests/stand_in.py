"""torch's checkpoint in the place of remat's, for tests that ask for a checkpoint and nothing more.

REMAT_STAND_IN=torch pytest tests/review

A test that asks remat for anything else is skipped.
"""

import collections
import os

import pytest
from torch.utils.checkpoint import checkpoint as torchs

import remat


class Beyond:
    """Whatever is asked of it, torch has not."""

    def __getattr__(self, _name):
        return self

    def __call__(self, *_args, **_kwargs):
        pytest.skip("asks for more than a checkpoint")


def checkpoint(function, *args, policy=None, **kwargs):
    if policy is not None:
        Beyond()()
    return torchs(function, *args, use_reentrant=False, **kwargs)


def install():
    if os.environ.get("REMAT_STAND_IN") != "torch":
        return
    kept = ("__version__", "memory", "install", "uninstall")
    for name in set(remat.__all__) - set(kept):
        setattr(remat, name, Beyond())
    remat.checkpoint = checkpoint
    # A function that is called again computes all of it again.
    remat.stats = lambda: collections.defaultdict(Beyond(), ops_replayed=1)
    remat.reset_stats = lambda: None
