"""Compares what a case returned under a checkpoint with what it returned without one.

A case's EXPECT holds any of:
    equal_plain [keys]            the same as without a checkpoint, tensors bit for bit
    value   {key: (v, why)}       this value
    one_of  {key: ([v..], why)}   any of these
    at_most {key: (v, why)}       a number not above this
"""

import torch


def judge(expect, got, plain):
    """Every miss as `key: what was seen`; an empty list means that the case passes."""
    misses = [
        f"{k}: {difference(got.get(k), plain[k])}"
        for k in expect.get("equal_plain", [])
        if not same(got.get(k), plain[k])
    ]
    for key, (value, why) in expect.get("value", {}).items():
        if not same(got.get(key), value):
            misses.append(f"{key}: {show(got.get(key))}, want {value!r}: {why}")
    for key, (values, why) in expect.get("one_of", {}).items():
        if not any(same(got.get(key), value) for value in values):
            misses.append(f"{key}: {show(got.get(key))}, want one of {values!r}: {why}")
    for key, (bound, why) in expect.get("at_most", {}).items():
        if key not in got or got[key] > bound:
            misses.append(f"{key}: {got.get(key)} > {bound:.0f}: {why}")
    return misses


def same(a, b):
    """Equality to the bit; NaN equals NaN, True is not 1."""
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and same_tensor(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, bool) != isinstance(b, bool):
        return False
    return a == b or (a != a and b != b)


def same_tensor(a, b):
    if (a.dtype, a.shape, a.layout) != (b.dtype, b.shape, b.layout):
        return False
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    return bool(((a == b) | ((a != a) & (b != b))).all())


def difference(a, b):
    if (
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and a.shape == b.shape
        and a.numel()
    ):
        worst = float((a.detach().double() - b.detach().double()).abs().max())
        return f"max|diff| {worst:.3g}, dtype {a.dtype} against plain {b.dtype}"
    return f"{show(a)} against plain {show(b)}"


def show(value):
    return f"tensor{tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:80]
