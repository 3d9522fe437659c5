"""DistributedDataParallel: each gradient is reduced once, whoever recomputes."""

import pytest
import torch
from bitwise import assert_same, plain
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import remat


class Net(nn.Module):
    """Uses one block in two regions."""

    def __init__(self, checkpoint):
        super().__init__()
        self.shared, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.checkpoint = checkpoint

    def forward(self, x):
        x = self.checkpoint(self.tanh, x)
        x = self.checkpoint(self.tanh, x)
        return self.checkpoint(lambda h: self.last(h).sigmoid(), x)

    def tanh(self, x):
        return torch.tanh(self.shared(x))


def train(checkpoint, options):
    torch.manual_seed(0)
    net = Net(checkpoint)
    model = DistributedDataParallel(net, **options)
    results = []
    for step in range(3):
        model.zero_grad()
        rank = torch.distributed.get_rank()
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(2 * step + rank))
        model(x.requires_grad_()).square().sum().backward()
        results += [x.grad, *(p.grad.clone() for p in net.parameters())]
    return results


def compare(options):
    expected = train(plain, options)
    remat.reset_stats()
    assert_same(train(remat.checkpoint, options), expected)
    assert remat.stats()["ops_replayed"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001},
    ],
    ids=lambda options: ", ".join(options),
)
def test_shared_block(ranks, options):
    ranks.run(compare, options)
