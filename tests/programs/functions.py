"""Custom autograd Functions and modes for random programs, each with a habit that is legal in plain
training and that a checkpoint may get wrong."""

import torch
from torch.autograd.function import once_differentiable
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
    @once_differentiable
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


class Scratch(torch.autograd.Function):
    """Computes its gradient in the memory of what it saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return x.cos_().mul_(grad)


class Blot(torch.autograd.Function):
    """Writes two elements of what it saved."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = x.cos()
        x.view(-1)[2:8:5] = 7
        return grad * slope


class Prepared(torch.autograd.Function):
    """Returns as its gradient the tensor that it saved."""

    @staticmethod
    def forward(ctx, x, gradient):
        ctx.save_for_backward(gradient)
        return (x * gradient).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, _):
        (gradient,) = ctx.saved_tensors
        return gradient, None


class OwnGradient(torch.autograd.Function):
    """Adds to the gradient of a weight by itself."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        own = (grad * x).sum_to_size(weight.shape)
        if weight.grad is None:
            weight.grad = own
        else:
            weight.grad.add_(own)
        return (grad * weight).sum_to_size(x.shape), None


class MainGradient(torch.autograd.Function):
    """Adds to an attribute of a weight."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        weight.main_grad.add_((grad * x).sum_to_size(weight.shape))
        return (grad * weight).sum_to_size(x.shape), None


class Recognizing(torch.autograd.Function):
    """Gives another gradient if it is not given the very weight that it saved."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        ctx.weight = weight
        return x * weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        own = weight is ctx.weight and type(weight) is type(ctx.weight)
        factor = 1 if own and getattr(weight, "tag", None) == "own" else 2
        return (grad * weight * factor).sum_to_size(x.shape), None


class FreesInput(torch.autograd.Function):
    """Needs its argument no more, as what it returns tells it."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.x, ctx.size = x.detach(), x.untyped_storage().nbytes()
        ctx.y = y.detach().clone()
        x.untyped_storage().resize_(0)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        ctx.x.untyped_storage().resize_(ctx.size)
        ctx.x.copy_(ctx.y * 0.5)
        return grad * ctx.x.cos()


class Hollow(torch.autograd.Function):
    """Saves a tensor without bytes, which backward gives some."""

    @staticmethod
    def forward(ctx, x):
        kept = x.detach() * 1
        ctx.half = kept * 0.5
        ctx.save_for_backward(kept)
        kept.untyped_storage().resize_(0)
        return x * 2

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (kept,) = ctx.saved_tensors
        kept.untyped_storage().resize_(kept.numel() * kept.element_size())
        kept.data.copy_(ctx.half * 2)
        return grad * kept.cos()


class Ignoring(torch.autograd.Function):
    """Reads only the first of its arguments."""

    @staticmethod
    def forward(ctx, x, _):
        ctx.save_for_backward(x)
        return x.square()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 2, None


class SeeCalls(TorchFunctionMode):
    """Is called for every function of torch."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class SeeOperators(TorchDispatchMode):
    """Is called for every operator."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
