"""The caller overwrites an argument between forward and backward (a recycled buffer).

Plain autograd raises for a tensor it saved. A checkpoint must either raise as well or give the
gradient of the values the forward saw; a silent other number is wrong. Checked for a positional,
a keyword, a nested and a captured tensor.

Source: https://github.com/pytorch/pytorch/pull/178568 and
    https://github.com/InternLM/xtuner/pull/1979 (only top-level positional tensors go through
    SavedVariable), https://github.com/bitsandbytes-foundation/bitsandbytes/issues/2034
Class: in-place / aliasing (version check lost; silent).
"""

import torch

_WHY = "raise, or the gradient 2*s of the values seen by the forward (s = 3)"
EXPECT = {
    "one_of": {k: (["raised", 6.0], _WHY) for k in ("positional", "keyword", "nested", "captured")}
}


def _one(checkpoint, how):
    w = torch.tensor(2.0, requires_grad=True)
    scale = torch.tensor(3.0)  # no grad, will be recycled
    hold = scale * 1.0
    if how == "positional":
        y = checkpoint(lambda a, s: a.exp().log() * s, w, hold)
    elif how == "keyword":
        y = checkpoint(lambda a, s=None: a.exp().log() * s, w, s=hold)
    elif how == "nested":
        y = checkpoint(lambda a, d: a.exp().log() * d["s"][0], w, {"s": [hold]})
    else:
        y = checkpoint(lambda a: a.exp().log() * hold, w)
    loss = 2.0 * y
    hold.fill_(50.0)
    try:
        loss.backward()
    except RuntimeError:
        return "raised"
    return round(float(w.grad), 4)


def run(checkpoint):
    return {k: _one(checkpoint, k) for k in ("positional", "keyword", "nested", "captured")}
