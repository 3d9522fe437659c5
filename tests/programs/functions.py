"""Custom autograd Functions and modes for random programs, each with a habit that is legal in plain
training and that a checkpoint may get wrong."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Square(torch.autograd.Function):
    """Saves its input, and can be differentiated twice."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * grad * x


class Sigmoid(torch.autograd.Function):
    """Saves what it returns, which it filled by itself."""

    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        torch.sigmoid(x, out=y)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)


class Halve(torch.autograd.Function):
    """Changes its argument and returns it."""

    @staticmethod
    def forward(ctx, x):
        x.mul_(0.5)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 0.5


class Masked(torch.autograd.Function):
    """Draws, saves an intermediate, and returns a result that is not differentiable."""

    @staticmethod
    def forward(ctx, x):
        mask = torch.rand_like(x) > 0.5
        ctx.save_for_backward(mask)
        ctx.mark_non_differentiable(mask)
        return x * mask, mask

    @staticmethod
    def backward(ctx, grad, _):
        (mask,) = ctx.saved_tensors
        return grad * mask


class Numpy(torch.autograd.Function):
    """Computes outside torch, and keeps an array of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.array = x.detach().numpy().copy()
        return torch.from_numpy(ctx.array * 0.5)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        return grad * 0.5 + torch.from_numpy(ctx.array) * 0


class Flatten(torch.autograd.Function):
    """Returns a view of its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.view(ctx.shape)


class SplitSetup(torch.autograd.Function):
    """Has its context set up apart from forward, and two inputs of which one needs no gradient."""

    @staticmethod
    def forward(x, y):
        return x * y.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y.sin(), grad * x * y.cos() if ctx.needs_input_grad[1] else None


class Refusing(torch.autograd.Function):
    """Raises in backward."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ArithmeticError("refused")


class SeeCalls(TorchFunctionMode):
    """Is called for every function of torch."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class SeeOperators(TorchDispatchMode):
    """Is called for every operator."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
