"""Process-wide defaults (dtype, factory device context) are restored before backward runs.

Source: https://github.com/pytorch/pytorch/issues/124788 ,
    https://github.com/pytorch/pytorch/pull/180423 (mode leak after recompute)
Class: ambient mode differs between forward and recompute.
"""

import torch

EXPECT = {
    "equal_plain": ["dtype", "g_w", "g_x", "leak_dtype", "leak_modes"],
    "value": {
        "leak_dtype": ("torch.float32", "backward must not leave a default behind"),
        "leak_modes": (0, "same"),
    },
}


def run(checkpoint):
    torch.manual_seed(23)
    w = torch.randn(4, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def f(t):
        pos = torch.arange(0, 2, 0.5) / 3  # takes the default dtype
        return torch.sin(t * pos * 1e3) * w

    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("cpu"):
            y = checkpoint(f, x)
    finally:
        torch.set_default_dtype(torch.float32)
    dt = str(y.dtype)
    try:
        y.square().sum().backward()
    finally:
        leak = str(torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
    return {
        "dtype": dt,
        "g_w": w.grad,
        "g_x": x.grad,
        "leak_dtype": leak,
        "leak_modes": torch._C._len_torch_function_stack(),
    }
