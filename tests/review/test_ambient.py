"""What a kernel reads beside its arguments: what it was in forward counts, not in backward."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from bitwise import assert_replayed_as_plain, leaf


def step_under(ambient, fn, x):
    """Forward under the context manager, backward after it."""

    def step(checkpoint):
        x.grad = None
        with ambient():
            y = checkpoint(fn, x)
        y.sum().backward()
        return [y.detach(), x.grad.clone()]

    return step


@contextlib.contextmanager
def setting(set_value, inside, outside):
    set_value(inside)
    try:
        yield
    finally:
        set_value(outside)


def test_default_dtype():
    def double():
        return setting(torch.set_default_dtype, torch.float64, torch.float32)

    def fn(x):
        return (x * (torch.arange(16).reshape(4, 4) / 3)).sin()

    assert_replayed_as_plain(step_under(double, fn, leaf()))


def test_number_of_threads():
    def two_threads():
        return setting(torch.set_num_threads, 2, 1)

    # Two threads add in another order than one; sin of so large a sum shows each bit.
    x = leaf(1, 3_000_017)
    assert_replayed_as_plain(step_under(two_threads, lambda x: x.square().sum().sin(), x))


def test_onednn_flag():
    def no_onednn():
        return torch.backends.mkldnn.flags(enabled=False)

    weight = leaf(64, 32, 3, 3).detach()
    assert_replayed_as_plain(
        step_under(no_onednn, lambda x: F.conv2d(x, weight).sin(), leaf(2, 32, 17, 17))
    )


def test_matmul_precision():
    @contextlib.contextmanager
    def bfloat16_products():
        flags = torch.backends.mkldnn.matmul
        before = flags.fp32_precision
        torch.set_float32_matmul_precision("medium")
        flags.fp32_precision = "bf16"
        yield
        torch.set_float32_matmul_precision("highest")
        flags.fp32_precision = before

    weight = leaf(256, 256).detach()
    assert_replayed_as_plain(
        step_under(bfloat16_products, lambda x: (x @ weight).sin(), leaf(256, 256))
    )


def test_flush_denormal():
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor cannot flush denormals")

    def flushing():
        return setting(torch.set_flush_denormal, True, False)

    def fn(x):
        return (x * 3).mul(1e38).exp() * x.exp()

    x = torch.full((4, 4), 1e-39, requires_grad=True)
    assert_replayed_as_plain(step_under(flushing, fn, x))


def test_grad_mode():
    def fn(x):
        with torch.no_grad():
            gate = (x * 2).sigmoid()
        return (x * gate).sin()

    assert_replayed_as_plain(step_under(contextlib.nullcontext, fn, leaf()))
