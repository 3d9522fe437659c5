"""What PyTorch's newer sources test of checkpoints and those of 2.6 do not, said anew."""

import contextlib

import torch
from torch.utils.checkpoint import GraphExecGroup, checkpoint


def two_results(x):
    y = x.sin().cos()
    return y, y.sin().cos()


class TestNewer:
    def test_split_backward_values(self):
        """Two backward passes, each through one half."""
        x = torch.randn(3, 3, requires_grad=True)
        y, z = checkpoint(two_results, x, use_reentrant=False)
        (grad_y,) = torch.autograd.grad(z, y, torch.ones_like(z))
        (grad_x,) = torch.autograd.grad(y, x, grad_y)
        (expected,) = torch.autograd.grad(two_results(x)[1], x, torch.ones_like(z))
        assert torch.equal(grad_x, expected)

    def test_checkpoint_graph_execution_group(self):
        """In a group the two halves share one recomputation."""
        for group, calls in ((GraphExecGroup(), 2), (contextlib.nullcontext(), 3)):
            seen = []

            def counted(x, seen=seen):
                seen.append(None)
                return two_results(x)

            x = torch.randn(3, 3, requires_grad=True)
            y, z = checkpoint(counted, x, use_reentrant=False)
            with group:
                (grad_y,) = torch.autograd.grad(z, y, torch.ones_like(z))
                torch.autograd.grad(y, x, grad_y)
            assert len(seen) == calls
