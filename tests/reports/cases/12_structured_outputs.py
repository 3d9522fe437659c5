"""Outputs of every shape: namedtuple, dataclass, dict, None, ints, bool/int tensors.

Source: https://github.com/pytorch/pytorch/issues/85088 , .../issues/124725 , .../issues/52415 (PR
    52422), https://github.com/deepspeedai/DeepSpeed/issues/6969
Class: output structure / gradient connectivity.
"""

import collections
import dataclasses

import torch

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Box:
    y: torch.Tensor
    n: int
    extra: object = None


EXPECT = {"equal_plain": ["kind", "flags", "vals", "g_x", "g_w", "g_in"]}


def run(checkpoint):
    torch.manual_seed(12)
    x = torch.randn(3, 4, requires_grad=True)
    w = torch.randn(4, 4, requires_grad=True)
    z = torch.randn(3, 4, requires_grad=True)

    def f(inp, mode, k, nothing):
        h = torch.tanh(inp["x"] @ w) + inp["rest"][0]
        mask = h > 0
        idx = h.argmax(-1)
        return {
            "pair": Pair(h, h.exp()),
            "box": Box(h.sin(), k + 1, {"m": mask}),
            "idx": idx,
            "mode": mode,
            "none": nothing,
            "list": [h.cos(), 3.5, torch.arange(k)],
        }

    o = checkpoint(f, {"x": x, "rest": (z,)}, "train", 2, None)
    kind = [
        type(o["pair"]).__name__,
        type(o["box"]).__name__,
        o["box"].n,
        o["mode"],
        o["none"] is None,
        type(o["list"]).__name__,
        o["list"][1],
    ]
    flags = [
        o["pair"].left.requires_grad,
        o["box"].y.requires_grad,
        o["idx"].requires_grad,
        o["box"].extra["m"].requires_grad,
        o["list"][2].requires_grad,
        str(o["idx"].dtype),
        str(o["box"].extra["m"].dtype),
    ]
    loss = (
        (o["pair"].left * o["box"].y).sum()
        + o["list"][0].square().sum()
        + o["pair"].right[0].gather(0, o["idx"][:1]).sum()
    )
    loss.backward()
    return {
        "kind": kind,
        "flags": flags,
        "vals": torch.stack([o["pair"].right, o["box"].y]).detach(),
        "g_x": x.grad,
        "g_w": w.grad,
        "g_in": z.grad,
    }
