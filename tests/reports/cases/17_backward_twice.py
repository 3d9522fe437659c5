"""Two losses on the same features: backward twice with retain_graph, then a third over a part only.

Source: https://github.com/openai/guided-diffusion/pull/144 ,
    https://github.com/zhanghang1989/PyTorch-Encoding/issues/76 ,
    https://github.com/fudan-generative-vision/champ/issues/175
Class: graph lifetime (retain_graph).
"""

import torch
from torch import nn

EXPECT = {
    "equal_plain": ["g1", "g2", "g3", "after_free"],
    "value": {
        "after_free": ("raised", "the last backward freed the graph, so a fourth one must raise")
    },
}


def run(checkpoint):
    torch.manual_seed(17)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.3), nn.Linear(4, 4), nn.Sigmoid())
    x = torch.randn(3, 4, requires_grad=True)
    torch.manual_seed(170)
    h, s = checkpoint(lambda t: (net(t), net[1](net[0](t)).square()), x)
    h.sum().backward(retain_graph=True)
    g1 = net[0].weight.grad.clone()
    (h * s).sum().backward(retain_graph=True)
    g2 = net[0].weight.grad.clone()
    h[0].square().sum().backward()
    g3 = x.grad.clone()
    try:
        h[0].square().sum().backward()
        after = "no error"
    except RuntimeError:
        after = "raised"
    return {"g1": g1, "g2": g2, "g3": g3, "after_free": after}
