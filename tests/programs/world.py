"""What the lines of a random program see: a few leaves, modules with state, and a log of everything
a user could notice."""

import contextlib

import functions
import habits
import torch
import torch.nn.functional as F

# Made anew for each run; a program is printed with those it names.
PRELUDE = {
    "x0": "leaf(0, {size}, {size})",
    "x1": "leaf(1, {size}, {size})",
    "x2": "leaf(2, {size})",
    "c0": "leaf(3, {size}, {size}).detach()",
    "bank": "torch.zeros({size}, {size})",
    "g0": "torch.Generator().manual_seed(3)",
    "effects": "[]",
    "norm": "made(torch.nn.BatchNorm1d, {size})",
    "layer": "made(torch.nn.Linear, {size}, {size})",
    "drop": "torch.nn.Dropout(0.5)",
    "tied": "torch.nn.Sequential(layer, torch.nn.Tanh(), layer)",
    "watched": "watch(made(torch.nn.LayerNorm, {size}), effects)",
    "lstm": "made(torch.nn.LSTM, {size}, {size})",
    "gru": "made(torch.nn.GRU, {size}, {size})",
    "attention": "made(torch.nn.MultiheadAttention, {size}, 2)",
    "scale": "tagged({size})",
    "flat": "leaf(5, 3 * {size} ** 2).detach()",
    "p0": "part(flat, 0, {size})",
    "p1": "part(flat, 1, {size})",
    "p2": "part(flat, 2, {size})",
    "stepping_leaves": "stepping({size})",
}
LEAVES = ("x0", "x1", "x2")
PARTS = ("p0", "p1", "p2")  # leaves of the storage of flat
TENSORS = ("bank", "c0", *reversed(LEAVES))
MODULES = ("norm", "layer", "watched", "lstm", "gru", "attention")


class StopError(Exception):
    """What a program raises by itself."""


def leaf(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator) * 0.7).requires_grad_()


def made(module, *sizes):
    """The module with the same weights always, whatever is drawn before and after."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        return module(*sizes)


def filled(tensor, source):
    """The tensor, written without torch's knowledge."""
    tensor.numpy()[...] = source.detach().numpy() * 2
    return tensor


def hooked(tensor):
    """The tensor, if it may be given hooks: torch crashes where a view's base was written since."""
    if tensor._is_view():
        raise ValueError("a view")
    return tensor


def energy(tensor):
    """A real number to differentiate."""
    return (tensor * tensor.conj()).real.sum() if tensor.is_complex() else tensor.sum()


def total(*tensors):
    return sum(energy(tensor).double() for tensor in tensors)


def windows(tensor):
    """A view in which elements lie more than once."""
    fits = tensor.is_contiguous() and tensor.numel() > 2
    return tensor.as_strided((2, 2), (1, 1)) if fits else tensor[..., None]


def watch(module, effects):
    module.register_forward_pre_hook(lambda *_: effects.append("before"))
    module.register_forward_hook(lambda *_: effects.append("after"))
    module.register_full_backward_hook(lambda *_: effects.append("backward"))
    return module


def copied(tensor):
    return None if tensor is None else tensor.clone()


def dirty():
    """Overwrites memory that was freed, so that whoever reads it reads something else."""
    for elements in (1, 4, 16, 64, 128):
        dirt = [torch.full((elements,), 77.0) for _ in range(16)]
        del dirt


watchers = []  # functions that are told of each tensor that a hook of a program packs


def packing(how):
    """Hooks as users have them; what they do to a tensor without bytes is nothing."""
    there, back = PACKINGS[how]

    def pack(tensor):
        for watcher in watchers:
            watcher(tensor)
        return tensor if is_hollow(tensor) else there(tensor)

    return torch.autograd.graph.saved_tensors_hooks(
        pack,
        lambda packed: packed if torch.is_tensor(packed) and is_hollow(packed) else back(packed),
    )


PACKINGS = {
    "same": (lambda tensor: tensor, lambda packed: packed),
    "clone": (torch.clone, torch.clone),
    "cpu": (lambda tensor: (tensor.device, tensor.cpu()), lambda packed: packed[1].to(packed[0])),
    "box": (lambda tensor: [tensor], lambda packed: packed[0]),
}


def is_hollow(tensor):
    """Whether it has elements and no bytes; operators crash where they read one."""
    if tensor.layout != torch.strided:
        return False
    return tensor.numel() > 0 and tensor.untyped_storage().nbytes() == 0


def names():
    visible = {
        name: value
        for module in (functions, habits)
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
    }
    own = (StopError, leaf, made, filled, hooked, energy, total, windows, watch, dirty)
    own += (packing, copied)
    visible.update({value.__name__: value for value in own})
    return visible | {"torch": torch, "F": F, "contextlib": contextlib}


class Log:
    """What a run of a program showed, in order."""

    def __init__(self, measure=None):
        self.entries = []
        self.measure = measure  # what says how many bytes are live
        self.held = None  # of them at the end of forward

    def __call__(self, label, *values):
        if label == "forward" and self.measure:
            self.held = self.measure()
        self.entries.append((label, [seen(value) for value in values]))

    def attempt(self, label, act):
        """Goes on where plain refuses, unless because of a tensor that was changed: what follows
        such an error is compared with what follows another right answer to it."""
        try:
            act()
        except RuntimeError as error:
            if is_about_a_change(error):
                raise
            self(label, "refused")
        except ArithmeticError as error:
            self(label, str(error))


def is_about_a_change(error):
    """Autograd says it in two ways: of what it saved, and of a view that a Function returned."""
    return "modified by an inplace operation" in str(error) or "modified inplace" in str(error)


def seen(value):
    """All that can be seen of a value, as of now."""
    if isinstance(value, (list, tuple)):
        return [seen(each) for each in value]
    if not torch.is_tensor(value):
        return value
    facts = [value.requires_grad, value.is_leaf, value.stride(), value.dtype]
    graph = value.grad_fn.name() if value.grad_fn is not None else None
    inference = value.is_inference()
    version = None if inference else value._version
    grad = value.grad.detach().clone() if value.is_leaf and value.grad is not None else None
    with torch.inference_mode(inference):
        return [*facts, graph, version, value.detach().clone(), grad]
