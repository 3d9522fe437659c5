"""The checkpoint functions that programs of the tests are run with, by name."""

import functools
import importlib


def call_plainly(fn, *args, **kwargs):
    return fn(*args, **kwargs)


def find(name):
    """`remat`, `torch` (use_reentrant=False), `torch:reentrant`, `plain` (no checkpoint at all), or
    any `module:function`, called as function(fn, *args, **kwargs)."""
    if name == "plain":
        return call_plainly
    if name in ("torch", "torch:reentrant"):
        from torch.utils.checkpoint import checkpoint

        return functools.partial(checkpoint, use_reentrant=name == "torch:reentrant")
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function or "checkpoint")
