"""DistributedDataParallel (one gloo process) over a block used in two regions.

Source: https://github.com/pytorch/pytorch/issues/24005 ,
    https://github.com/huggingface/accelerate/issues/389 ,
    https://github.com/modelscope/ms-swift/issues/3171 ,
    https://github.com/pytorch/pytorch/issues/121594
Class: distributed / hooks.
"""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn

EXPECT = {"equal_plain": ["out", "g_a", "g_b", "reduced"]}


def run(checkpoint):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.manual_seed(28)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            def f(t):
                return torch.tanh(self.a(t))

            h = checkpoint(f, x)
            h = checkpoint(f, self.b(h))
            return checkpoint(lambda t: self.b(t).sigmoid(), h)

    net = Net()
    with tempfile.TemporaryDirectory() as d:
        dist.init_process_group("gloo", init_method=f"file://{d}/s", rank=0, world_size=1)
        try:
            ddp = nn.parallel.DistributedDataParallel(net)
            reduced = []

            def hook(state, bucket):
                reduced.append(bucket.buffer().numel())
                fut = torch.futures.Future()
                fut.set_result(bucket.buffer())
                return fut

            ddp.register_comm_hook(None, hook)
            for _ in range(2):
                net.zero_grad()
                y = ddp(torch.ones(2, 4, requires_grad=True))
                y.square().sum().backward()
            return {
                "out": y.detach(),
                "g_a": net.a.weight.grad,
                "g_b": net.b.weight.grad,
                "reduced": sum(reduced),
            }
        finally:
            dist.destroy_process_group()
