"""Memory: after the forward only region inputs may stay; after the backward nothing of it.

Counted from the CPU allocator's own events (net bytes over the measured span), so it does not
depend on how the checkpoint is built.

Source: https://github.com/pytorch/pytorch/issues/77284 , .../issues/78731 , .../issues/82293 ,
    .../issues/80151 , https://github.com/NVIDIA/Megatron-LM/issues/3221
Class: memory (not saved / not freed).
"""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def net_bytes(fn):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        keep = fn()
    evs = sorted(
        (e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"),
        key=lambda e: e.start_ns(),
    )
    cur = peak = 0
    for e in evs:
        cur += e.nbytes()
        peak = max(peak, cur)
    return keep, cur, peak


N = 256 * 256 * 4  # one activation
EXPECT = {
    "equal_plain": ["g_w", "g_x"],
    "at_most": {
        "after_forward": (5.5 * N, "4 blocks keep 4 boundary tensors; plain keeps 16 activations"),
        "after_backward": (
            0.5 * N,
            "all recomputed tensors are gone although the loss is still held",
        ),
        "peak_step": (12 * N, "boundaries, one block and its gradients; plain peaks at 20"),
    },
}


def run(checkpoint):
    torch.manual_seed(24)
    blocks = nn.ModuleList(
        [
            nn.Sequential(
                nn.Linear(256, 256),
                nn.Tanh(),
                nn.Linear(256, 256),
                nn.Sigmoid(),
                nn.Softmax(-1),
                nn.GELU(),
            )
            for _ in range(4)
        ]
    )
    x = torch.randn(256, 256, requires_grad=True)
    for p in [*blocks.parameters(), x]:
        p.grad = torch.zeros_like(p)  # so that gradient storage is not counted

    def fwd():
        h = x
        for b in blocks:
            h = checkpoint(b, h)
        return h.square().mean()

    fwd().backward()  # warm up
    loss, kept, _ = net_bytes(fwd)
    _, delta, _ = net_bytes(lambda: loss.backward())
    gw, gx = blocks[0][0].weight.grad.clone(), x.grad.clone()
    for p in [*blocks.parameters(), x]:
        p.grad.zero_()
    _, _, peak = net_bytes(lambda: fwd().backward())
    return {
        "g_w": gw,
        "g_x": gx,
        "after_forward": kept,
        "after_backward": kept + delta,
        "peak_step": peak,
    }
