"""Objects captured by, passed to and returned from the region die by reference counting alone.

Source: https://github.com/pytorch/pytorch/issues/84413 , .../issues/115255 ,
    https://github.com/pytorch/pytorch/pull/82776 ,
    https://github.com/pytorch/pytorch/issues/154642
Class: memory (reference cycles / leaks).
"""

import gc
import weakref

import torch

EXPECT = {
    "equal_plain": ["g_x", "captured_dead", "arg_dead", "no_backward_dead", "after_backward_dead"],
    "value": {
        "captured_dead": (True, "no cycle may keep the closure"),
        "arg_dead": (True, "nor an argument object"),
        "no_backward_dead": (True, "dropping the output without a backward frees everything"),
        "after_backward_dead": (
            True,
            "a finished backward lets go although the output is still held",
        ),
    },
}


class Thing:
    def __init__(self, t):
        self.t = t


def run(checkpoint):
    torch.manual_seed(27)
    x = torch.randn(3, requires_grad=True)
    checkpoint(
        lambda t, a: torch.tanh(t * a.t).exp(),
        torch.randn(3, requires_grad=True),
        Thing(torch.ones(3)),
    ).sum().backward()
    was = gc.isenabled()  # (the first call ever may import things and keep its frame for good)
    gc.collect()
    gc.disable()
    try:
        cap, arg = Thing(torch.ones(3)), Thing(torch.full((3,), 2.0))
        wc, wa = weakref.ref(cap), weakref.ref(arg)
        y = checkpoint(lambda t, a, c=cap: torch.tanh(t * a.t).exp() * c.t, x, arg)
        box = {"y": y}
        y.sum().backward()
        del cap, arg, y, box
        captured, argd = wc() is None, wa() is None

        cap = Thing(torch.ones(3))
        wc = weakref.ref(cap)
        y = checkpoint(lambda t, c=cap: torch.tanh(t).exp() * c.t, x)
        del cap, y
        nb = wc() is None

        cap = Thing(torch.ones(3))
        wc = weakref.ref(cap)
        y = checkpoint(lambda t, c=cap: torch.tanh(t).exp() * c.t, x)
        y.sum().backward()
        del cap
        ab = wc() is None
        held = y.detach()  # y itself is alive up to here
    finally:
        if was:
            gc.enable()
    return {
        "g_x": x.grad,
        "captured_dead": captured,
        "arg_dead": argd,
        "no_backward_dead": nb,
        "after_backward_dead": ab,
        "held": held,
    }
