"""Tensors as bytes: unlike ==, these tell -0.0 from 0.0 and find NaN equal to itself."""

import torch


def bits(tensor):
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    tensor = tensor.resolve_conj().resolve_neg()
    return tensor.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8)


def same(a, b):
    """Whether two values, tensors or lists and dicts of them, are equal to the bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        described = [(t.dtype, t.shape, t.layout) for t in (a, b)]
        return described[0] == described[1] and torch.equal(bits(a), bits(b))
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and (a == b or (a != a and b != b))


def differences(got, expected):
    """Names of what differs between two dicts of results."""
    return [key for key in expected if not same(got.get(key), expected[key])]
