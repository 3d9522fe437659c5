"""DeepSpeed ZeRO-3 itself, on the CPU. Runs where DeepSpeed is installed (make test-all)."""

import os

import pytest
import torch
from bitwise import assert_same, plain
from torch import nn

import remat

pytest.importorskip("deepspeed", reason="DeepSpeed is installed by make test-all alone")

WIDTH = 160  # a weight is more than what a region copies


@pytest.fixture(scope="module", autouse=True)
def own_processes(ranks):
    """DeepSpeed changes torch: FSDP no longer asks for the next block beforehand."""
    yield
    ranks.stop()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x + torch.tanh(self.linear(self.norm(x)) * self.scale)


class Net(nn.Module):
    def __init__(self, wholly, checkpoint):
        super().__init__()
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))
        self.wholly, self.checkpoint = wholly, checkpoint

    def forward(self, x):
        if self.wholly:
            return self.checkpoint(self.blocks, x)
        for block in self.blocks:
            x = self.checkpoint(block, x)
        return x


def train(checkpoint, wholly, frozen):
    """Three steps; losses and weights."""
    os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK=str(torch.distributed.get_rank()))
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled here
    torch.manual_seed(0)
    net = Net(wholly, checkpoint)
    for block in net.blocks:
        block.linear.weight.requires_grad_(not frozen)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    zero = {"stage": 3, "stage3_param_persistence_threshold": 0, "stage3_prefetch_bucket_size": 0}
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    engine = deepspeed.initialize(model=net, optimizer=optimizer, config=config)[0]
    losses = []
    for step in range(3):
        x = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(step))
        loss = engine(x.requires_grad_()).square().mean()
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    with deepspeed.zero.GatheredParameters(list(net.parameters())):
        weights = [p.detach().clone() for p in net.parameters()]
    engine.destroy()
    return losses, weights


def compare(wholly, frozen):
    expected = train(plain, wholly, frozen)
    remat.reset_stats()
    assert_same(train(remat.checkpoint, wholly, frozen), expected)
    assert remat.stats()["ops_replayed"] > 0


@pytest.mark.parametrize("frozen", [False, True], ids=["", "frozen"])
@pytest.mark.parametrize("wholly", [False, True], ids=["each block", "all blocks"])
def test_zero3(ranks, wholly, frozen):
    ranks.run(compare, wholly, frozen)


def test_zero3_with_its_linear_declared_replayable(ranks):
    ranks.run(compare_replayable)


def compare_replayable():
    from deepspeed.runtime.zero.linear import LinearFunctionForZeroStage3

    compare(True, False)
    replayed = remat.stats()["ops_replayed"]
    undeclared = LinearFunctionForZeroStage3.forward
    remat.replayable(LinearFunctionForZeroStage3)
    try:
        compare(True, False)
    finally:
        LinearFunctionForZeroStage3.forward = staticmethod(undeclared)
    assert remat.stats()["ops_replayed"] > replayed
