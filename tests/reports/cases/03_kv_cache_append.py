"""An attention block that appends its keys/values to a Python cache object.

Source: https://github.com/pytorch/pytorch/issues/155171 (length doubles in recompute),
    https://github.com/huggingface/transformers/issues/28056 ,
    https://github.com/shihao1895/MemoryVLA/issues/18 ,
    https://github.com/TensorAuto/OpenTau/issues/202
Class: Python-side state mutated by the region.
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["out", "g_q", "g_k", "g_v", "g_x", "cache_len0", "cache_len1"],
    "value": {
        "cache_len0": (10, "two segments of five tokens, each appended once"),
        "cache_len1": (10, "same"),
    },
}


class Cache:
    def __init__(self):
        self.k, self.v = {}, {}

    def update(self, i, k, v):
        if i in self.k:
            k = torch.cat([self.k[i], k], 1)
            v = torch.cat([self.v[i], v], 1)
        self.k[i], self.v[i] = k, v
        return k, v


class Block(nn.Module):
    def __init__(self, i, d):
        super().__init__()
        self.i = i
        self.q, self.kk, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x, cache):
        k, v = cache.update(self.i, self.kk(x), self.v(x))
        a = (self.q(x) @ k.transpose(1, 2) / 2.0).softmax(-1)
        return x + torch.tanh(a @ v)


def run(checkpoint):
    torch.manual_seed(3)
    blocks = nn.ModuleList([Block(0, 4), Block(1, 4)])
    cache = Cache()
    xs = [torch.randn(2, 5, 4, requires_grad=True) for _ in range(2)]
    loss = 0.0
    for x in xs:
        h = x
        for b in blocks:
            h = checkpoint(b, h, cache)
        loss = loss + h.square().sum()
    loss.backward()
    return {
        "out": h.detach(),
        "g_q": blocks[0].q.weight.grad,
        "g_k": blocks[0].kk.weight.grad,
        "g_v": blocks[1].v.weight.grad,
        "g_x": xs[0].grad,
        "cache_len0": cache.k[0].shape[1],
        "cache_len1": cache.v[1].shape[1],
    }
