"""Outputs cut from the graph stay cut; an argument returned as it is stays the same object; views
stay views.

Source: https://github.com/pytorch/pytorch/pull/37266 ,
    https://github.com/Nerogar/OneTrainer/issues/549 ,
    https://github.com/facebookresearch/fairscale/pull/787 ,
    https://github.com/pytorch/pytorch/issues/26546
Class: gradient connectivity / aliasing of outputs.
"""

import torch

EXPECT = {
    "equal_plain": [
        "flags",
        "same_object",
        "shared_storage",
        "only_detached",
        "g_x",
        "g_x2",
        "h_after",
    ]
}


def run(checkpoint):
    torch.manual_seed(40)
    x = torch.randn(3, 2, requires_grad=True)

    def f(t):
        with torch.no_grad():
            frozen = t.sin() * 2
        e = t.exp()
        return e, frozen, e.detach(), t, e, t[0]

    h = x * 1
    e, frozen, det, arg, e2, row = checkpoint(f, h)
    flags = [v.requires_grad for v in (e, frozen, det, arg, e2, row)]
    same = [arg is h, e is e2, det is e]
    shared = [det.data_ptr() == e.data_ptr(), row.data_ptr() == h.data_ptr()]
    only = checkpoint(lambda t: (t * 2).detach(), h)
    (e * frozen + arg * det + only).sum().backward()
    g1 = x.grad.clone()
    x.grad = None
    k = x * 1
    v = checkpoint(lambda t: t.view(-1), k)
    v.mul_(3)  # through the view this changes k as well
    (v.sum() + (k * k).sum()).backward()
    return {
        "flags": flags,
        "same_object": same,
        "shared_storage": shared,
        "only_detached": only.requires_grad,
        "g_x": g1,
        "g_x2": x.grad,
        "h_after": k.detach().clone(),
    }
