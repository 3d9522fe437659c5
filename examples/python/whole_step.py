"""A region around a whole forward pass: the model's code does not change."""

import contextlib

import torch
from torch import nn

import remat

WIDTH, ROWS = 64, 1024


def model(depth=32):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(depth)]
    net = nn.Sequential(*layers)
    for parameter in net.parameters():
        parameter.grad = torch.zeros_like(parameter)  # so that a peak is one of activations
    return net


def step(scope):
    """Gradients of one step under `scope`, and its peak in MiB."""
    net = model()
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(1))
    before = remat.memory.live_bytes()
    remat.memory.reset_peak()
    with scope:
        loss = net(x).square().mean()
    loss.backward()
    peak = (remat.memory.peak_bytes() - before) / 2**20
    return [p.grad for p in net.parameters()], peak


remat.memory.install()
expected, plain = step(contextlib.nullcontext())
print(f"plain        peak {plain:5.1f} MiB")
# One segment holds all at once when backward comes; many hold many boundaries.
for segments in (1, 2, 4, 6, 8, 16, 32):
    gradients, peak = step(remat.region(segments=segments))
    assert all(map(torch.equal, gradients, expected))
    print(f"{segments:2} segments  peak {peak:5.1f} MiB, the same gradients")

net, x = model(depth=2), torch.randn(2, WIDTH)
with remat.region() as region:
    loss = net(x).square().mean()
print(f"\nThe tape of two layers:\n\n{region.tape()}")
