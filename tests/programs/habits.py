"""What programs do to tensors in more than one line: writes that torch does not see, storages that
are freed and filled again, leaves of one storage, long loops. All of it is legal in plain training.

Much of it works on 320 numbers, of which 64 evenly spaced ones do not show what was done to two.
"""

import ctypes

import numpy
import torch

LENGTH = 320
UNSAMPLED = [2, 7]


def wide(tensor):
    """LENGTH numbers that are made of the tensor's first ones."""
    few = tensor.flatten()[:16]
    return few.repeat(-(-LENGTH // few.numel()))[:LENGTH]


def narrow(numbers):
    return numbers.view(-1, 4).sum(0)


# ---- Writes that torch does not see


def dotted(numbers, way):
    """The LENGTH numbers, two of which were written without torch's knowledge."""
    WAYS[way](numbers)
    return numbers


def by_numpy(numbers):
    numbers.numpy()[UNSAMPLED] = 3


def by_pointer(numbers):
    memory = (ctypes.c_float * LENGTH).from_address(numbers.data_ptr())
    for place in UNSAMPLED:
        memory[place] = 3.0


def by_dlpack(numbers):
    torch.from_dlpack(numbers)[UNSAMPLED] = 3


def by_numpys_dlpack(numbers):
    numpy.from_dlpack(numbers)[UNSAMPLED] = 3


def by_storage(numbers):
    numbers.untyped_storage()[4 * UNSAMPLED[0] + 3] = 64  # the exponent's byte: 2 or more


def by_buffer(numbers):
    numpy.frombuffer(memoryview(numbers.numpy()), dtype=numpy.float32)[UNSAMPLED[1]] = 3


WAYS = {
    "numpy": by_numpy,
    "pointer": by_pointer,
    "dlpack": by_dlpack,
    "numpy's dlpack": by_numpys_dlpack,
    "storage": by_storage,
    "buffer": by_buffer,
}


def weighed(tensor, weights):
    """Four numbers whose gradient is made of the LENGTH weights."""
    return narrow(wide(tensor) * weights)


def alike(tensor, act):
    """Two tensors that differ where no sample lies, written by one operator."""
    first = wide(tensor) * 1
    second = first.where(torch.arange(LENGTH) != UNSAMPLED[0], first * 0.5)
    act([first, second])
    return narrow(first + 3 * second)


# ---- Storages


def free(tensor):
    tensor.untyped_storage().resize_(0)


def hollow(tensor):
    """The tensor without its bytes."""
    free(tensor)
    return tensor


def refilled(tensor, source):
    """The tensor, with bytes of new memory."""
    values = source.detach().expand_as(tensor).clone()
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if not tensor.is_contiguous() or tensor.numel() * tensor.element_size() != size:
        raise ValueError("shows a part of its storage")
    storage.resize_(0)
    storage.resize_(size)
    tensor.data.copy_(values)
    return tensor


def part(flat, index, size):
    """A leaf that lies in a part of the flat vector, as vector_to_parameters makes it."""
    leaf = torch.nn.Parameter(torch.empty(size, size))
    leaf.data = flat[index * size**2 :][: size**2].view(size, size)
    return leaf


def stepping(size):
    """Leaves of one storage that are updated as soon as backward is through with them."""
    flat = torch.linspace(-0.5, 0.5, 4 * size**2)
    leaves = [part(flat, index, size) for index in range(4)]
    for leaf in leaves:
        leaf.register_post_accumulate_grad_hook(step)
    return leaves


def step(leaf):
    with torch.no_grad():
        leaf.sub_(leaf.grad, alpha=0.1)
    leaf.grad = None


def stacked(tensor, leaves):
    for leaf in leaves:
        tensor = torch.tanh(tensor @ leaf)
    return tensor


def attacked(tensor, how):
    """A leaf that is made here, and updated behind autograd's back between its uses."""
    delta = (tensor.detach() * 0.5).requires_grad_()
    for _ in range(2):
        loss = ((tensor.detach() + delta).sin() * delta).sum()
        (slope,) = torch.autograd.grad(loss, delta)
        HOWS[how](delta, slope.sign() * 0.1)
    return (tensor + delta) * delta


def add_to_data(delta, change):
    delta.data.add_(change)


def add_without_grad(delta, change):
    with torch.no_grad():
        delta.add_(change)


def add_detached(delta, change):
    delta.detach().add_(change)


def assign_data(delta, change):
    delta.data = delta.data + change


HOWS = {
    "data": add_to_data,
    "no_grad": add_without_grad,
    "detach": add_detached,
    "assign": assign_data,
}


class Tagged(torch.nn.Parameter):
    """A parameter of a kind of its own, with attributes."""


def tagged(size):
    weight = Tagged(torch.linspace(0.5, 1.5, size))
    weight.tag = "own"
    weight.main_grad = torch.zeros(size)
    return weight


# ---- Loops


def wandered(tensor, steps, stage):
    """Most operators of the loop are dead at its end; what `stage` made is not."""
    staged = stage(tensor.detach())
    with torch.no_grad():
        state = tensor.detach()
        for _ in range(steps):
            state = state * 0.999
    return tensor.sin() * staged + state.mean()


def jittered(tensor, steps):
    for _ in range(steps):
        tensor = tensor * (1 + 0.01 * torch.randn(()))
    return tensor


def drawn_for_nothing(tensor, steps):
    with torch.no_grad():
        for _ in range(steps):
            noise = torch.randn(2)
    return tensor.sin() * noise.sum()


def unrolled(checkpoint, tensor, other, steps):
    """A checkpoint a step."""
    for number in range(steps):
        tensor = checkpoint(lambda state, by=number: torch.tanh(state + other * (0.1 * by)), tensor)
    return tensor
