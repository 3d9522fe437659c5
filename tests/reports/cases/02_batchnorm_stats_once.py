"""BatchNorm running statistics and the batch counter move once per step, not twice.

Source: https://github.com/pytorch/pytorch/issues/96136 , .../issues/62471 ,
    https://github.com/Tencent/YOLO-Master/issues/262 ,
    https://github.com/facebookresearch/fairscale/issues/1035
Class: persistent state mutated by the region (recompute repeats the mutation).
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["mean1", "mean3", "var3", "tracked", "g_w", "g_x", "eval_out"],
    "value": {"tracked": (3, "three training steps, one BatchNorm update each")},
}


def run(checkpoint):
    torch.manual_seed(2)
    block = nn.Sequential(
        nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=0.2), nn.ReLU(), nn.Conv2d(3, 2, 1)
    )
    block.train()
    opt = torch.optim.SGD(block.parameters(), lr=0.05)
    mean1 = None
    for step in range(3):
        x = (torch.randn(4, 2, 6, 6) + step).requires_grad_()
        opt.zero_grad()
        checkpoint(block, x).square().mean().backward()
        opt.step()
        if mean1 is None:
            mean1 = block[1].running_mean.clone()
    block.eval()
    with torch.no_grad():
        ev = block(torch.ones(1, 2, 6, 6))
    return {
        "mean1": mean1,
        "mean3": block[1].running_mean.clone(),
        "var3": block[1].running_var.clone(),
        "tracked": int(block[1].num_batches_tracked),
        "g_w": block[0].weight.grad,
        "g_x": x.grad,
        "eval_out": ev,
    }
