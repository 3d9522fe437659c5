"""Several Python threads train at once; each must get its own gradients, with its own thread-local
modes.

Source: https://github.com/pytorch/pytorch/issues/96764 , .../issues/11732
Class: threads.
"""

import threading

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["errors", "grads", "outs", "other_thread"],
    "value": {"errors": ([], "no thread may fail")},
}


def run(checkpoint):
    torch.manual_seed(26)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8), nn.Sigmoid())
    xs = [torch.randn(4, 8) for _ in range(4)]
    grads, outs, errs = [None] * 4, [None] * 4, []
    gate = threading.Barrier(4)

    def work(i):
        try:
            gate.wait(20)
            for _ in range(8):
                x = xs[i].clone().requires_grad_()
                y = checkpoint(net, checkpoint(net, x))
                gs = torch.autograd.grad(y.square().sum(), [x, *net.parameters()])
            grads[i] = torch.cat([g.flatten() for g in gs])
            outs[i] = y.detach()
        except Exception as e:
            errs.append(f"{type(e).__name__}: {e}"[:200])

    ts = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [t.start() for t in ts]
    [t.join(60) for t in ts]
    # one more: forward here, backward on another thread
    x = xs[0].clone().requires_grad_()
    y = checkpoint(net, x)
    t = threading.Thread(target=lambda: y.square().sum().backward())
    t.start()
    t.join(60)
    return {
        "errors": errs,
        "grads": torch.stack(grads) if not errs else None,
        "outs": torch.stack(outs) if not errs else None,
        "other_thread": x.grad,
    }
