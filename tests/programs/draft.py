"""A program as far as it is written: its lines, and what their names are bound to."""

import contextlib
import re

import torch
import world
from instruction import CHOICES
from world import LEAVES, PARTS, PRELUDE, TENSORS, StopError

NUMBERS = ("0.5", "-1.5", "2", "0.25")
INDENT = "    "
COPIED = 100  # leaves of this size are below the 64 KiB up to which a region copies what it reads


# Hooks hand out other tensors than were saved, copy noise before it is made, and do not notice
# that a second backward pass gets what the first one wrote over.
NOT_UNDER_HOOKS = re.compile("Recognizing|Hollow|OwnGradient|MainGradient|rrelu|Scratch|Blot")


class RefusedError(Exception):
    """The instruction makes no line here."""


def span(tensor):
    """The addresses of the first and the last byte that the tensor may show."""
    last = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size() - 1


class Draft:
    def __init__(self, size, reckless):
        self.size = size
        self.reckless = reckless
        self.names = world.names() | {
            "checkpoint": lambda function, *args, **kwargs: function(*args, **kwargs),
            "region": contextlib.nullcontext,
            "log": world.Log(),
        }
        torch.default_generator.manual_seed(0)
        self.define(TENSORS)
        self.lines = []
        self.depth = 1
        self.scopes = [list(TENSORS)]
        self.functions = [[]]  # by scope: name and number of parameters
        self.made = 0
        self.catching = 0
        self.open_regions = 0
        self.closed_regions = 0
        self.lasting_writes = 0
        self.born = set()  # addresses of what the open outermost region made
        self.shared = set()  # addresses of memory that others than torch know
        self.saved = {}  # what autograd saved, by address; alive, so that no address is met again
        self.spans = []  # first and last address of each tensor that autograd saved
        self.pinned = set()  # addresses of what hooks of the program keep without a version
        self.hooks = 0  # of the program around the line

    # ---- Lines

    def define(self, names):
        for name in names:
            if name in PRELUDE and name not in self.names:
                made = PRELUDE[name].format(size=self.size)
                self.define(re.findall(r"[a-z]\w*", made))
                self.names[name] = eval(made, self.names)

    def line(self, text):
        """Runs a line and adds it."""
        self.check(text)
        self.define(re.findall(r"[a-z]\w*", text))
        try:
            exec(text, self.names)
        except StopError:
            raise
        except Exception as error:
            raise RefusedError(text) from error
        self.add(text)

    def check(self, text):
        if self.hooks and NOT_UNDER_HOOKS.search(text):
            raise RefusedError(text)

    def add(self, text):
        self.lines.append(INDENT * self.depth + text)

    def bind(self, expression):
        """Adds a line that gives the tensors that the expression makes a name each."""
        value = self.value(expression)
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(map(self.is_usable, values)):
            raise RefusedError(expression)
        # A view of what was there is not new.
        old = {self.address(self.tensor(name)) for name in self.in_sight()}
        self.born.update(set(map(self.address, values)) - old)
        names = [self.fresh("v") for _ in values]
        self.names.update(zip(names, values, strict=True))
        self.scopes[-1].extend(names)
        self.add(f"{', '.join(names)} = {expression}")

    @contextlib.contextmanager
    def undone_if_refused(self):
        """Draws as if a line that is left out had never been tried: a program makes the numbers
        that it was written with."""
        generators = [torch.default_generator, *filter(None, [self.names.get("g0")])]
        states = [generator.get_state() for generator in generators]
        try:
            yield
        except RefusedError:
            for generator, state in zip(generators, states, strict=True):
                generator.set_state(state)

    def would_be(self, expression):
        """What the expression would be bound to, without a line for it."""
        value = None
        with self.undone_if_refused():
            value = self.value(expression)
            raise RefusedError
        return value

    def value(self, expression):
        self.check(expression)
        self.define(re.findall(r"[a-z]\w*", expression))
        try:
            return eval(expression, self.names)
        except Exception as error:
            raise RefusedError(expression) from error

    def is_usable(self, value):
        """Tensors that do not grow without bound, in number or in elements."""
        if not torch.is_tensor(value) or value.numel() > 8 * self.size**2:
            return False
        with torch.inference_mode(value.is_inference()):
            return bool(value.detach().isfinite().all())

    def fresh(self, prefix):
        self.made += 1
        return f"{prefix}{self.made}"

    # ---- Operands

    def choose(self, candidates, pick):
        """The newest for pick 0; one of the three newest for every second pick."""
        candidates = list(candidates)
        if not candidates:
            raise RefusedError
        index = pick // 4 if pick < 12 else pick
        return candidates[-1 - index % len(candidates)]

    def in_sight(self):
        return [name for scope in self.scopes for name in scope]

    def tensor(self, name):
        return self.names[name]

    def operand_like(self, name, pick):
        """Of the same shape, if there is another than itself; else whatever can be broadcast."""
        shape = self.tensor(name).shape
        same = [other for other in self.in_sight() if self.tensor(other).shape == shape]
        return self.choose(same, pick)

    def fill_in(self, template, picks):
        candidates = self.in_sight()
        if picks[1] < CHOICES * 2 // 3:  # what needs no gradient saves nothing
            candidates = [n for n in candidates if self.tensor(n).requires_grad] or candidates
        a = self.choose(candidates, picks[1])
        operands = {"a": a, "s": NUMBERS[picks[3] % len(NUMBERS)]}
        if "{b}" in template:
            operands["b"] = self.operand_like(a, picks[2])
        if "{c}" in template:
            operands["c"] = self.operand_like(a, picks[3])
        if "{m}" in template:
            last = self.tensor(a).shape[-1:]
            fits = [n for n in self.in_sight() if self.tensor(n).shape[-2:-1] == last]
            operands["m"] = self.choose(fits, picks[2])
        if "{x}" in template:
            operands["x"] = LEAVES[picks[2] % len(LEAVES)]
        return template.format(**operands), a

    @contextlib.contextmanager
    def watch_saved(self):
        def note(tensor):
            if tensor.layout != torch.strided or world.is_hollow(tensor):
                return
            storage = tensor.untyped_storage()
            self.saved[storage.data_ptr()] = storage
            self.spans.append(span(tensor))
            if self.hooks:
                self.pinned.add(storage.data_ptr())

        def pack(tensor):
            note(tensor)
            return tensor if world.is_hollow(tensor) else tensor.clone()

        world.watchers.append(note)
        try:
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                yield
        finally:
            world.watchers.remove(note)

    def may_write(self, name):
        """Not what autograd has saved, but in reckless programs. And nothing that a closed region
        may have read and holds without a copy: its replay raises an error where plain goes on."""
        address = self.address(self.tensor(name))
        if address in self.shared or address in self.pinned:
            return False  # plain's gradient would be of other values than its forward pass
        is_held = self.is_held(name)
        if is_held and self.closed_regions and address not in self.born:
            return False
        if is_held and not self.open_regions:
            return False
        return self.reckless or address not in self.saved

    def may_write_parts(self, text):
        """Not what autograd has saved of the storage, nor behind a region, as in may_write."""
        named = re.findall(r"\b(?:flat|p[012])\b", text)
        self.define(named)
        spans = [span(self.tensor(name)) for name in named]
        free = all(
            end < first or last < begin for first, last in spans for begin, end in self.spans
        )
        return free and not self.closed_regions

    def may_free(self, name):
        """Whether nobody needs the bytes, and no other name in sight shows them."""
        address = self.address(self.tensor(name))
        others = [self.tensor(other) for other in self.in_sight() if other != name]
        others += filter(torch.is_tensor, self.names.get("effects", []))
        known = self.saved.keys() | self.shared | set(map(self.address, others))
        return address not in known and self.may_write(name)

    def is_held(self, name):
        """True for what a region holds without a copy."""
        address = self.address(self.tensor(name))
        return self.size > COPIED or address in map(self.address, self.parameters())

    def parameters(self):
        yield from (self.tensor(name) for name in (*LEAVES, *PARTS) if name in self.names)
        for name in world.MODULES:
            if name in self.names:
                yield from self.tensor(name).parameters()

    def address(self, tensor):
        return tensor.untyped_storage().data_ptr()

    @contextlib.contextmanager
    def in_region(self):
        if not self.open_regions:
            self.born.clear()
        self.open_regions += 1
        try:
            yield
        finally:
            self.open_regions -= 1
            self.closed_regions += self.open_regions == 0
