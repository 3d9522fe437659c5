"""Layer-drop decided by Python's `random` (and NumPy) inside the region.

Source: https://github.com/huggingface/transformers/issues/30113 ,
    https://github.com/pytorch/pytorch/issues/42793 (layer drop with replayed forwards)
Class: randomness outside torch's default generators.
"""

import random

import torch
from torch import nn

try:
    import numpy as np
except ImportError:  # the case still runs without numpy
    np = None


EXPECT = {"equal_plain": ["out", "grads", "g_x", "py_next", "np_next"]}


def run(checkpoint):
    torch.manual_seed(5)
    random.seed(2)
    if np is not None:
        np.random.seed(7)
    layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(6)])

    def two(h, i):
        for j in (i, i + 1):
            if random.random() < 0.4:
                continue  # dropped
            s = np.random.rand(4) if np is not None else [random.random() for _ in range(4)]
            h = torch.tanh(layers[j](h)) * torch.tensor(s, dtype=h.dtype)
        return h

    x = torch.randn(3, 4, requires_grad=True)
    h = x
    for i in (0, 2, 4):
        h = checkpoint(two, h, i)
    h.square().sum().backward()
    g = [p.grad if p.grad is not None else torch.full_like(p, -1.0) for p in layers.parameters()]
    return {
        "out": h.detach(),
        "grads": torch.cat([t.flatten() for t in g]),
        "g_x": x.grad,
        "py_next": random.random(),
        "np_next": float(np.random.rand()) if np is not None else None,
    }
