"""Writes a program of instructions as Python source.

Each line is run as it is written, plainly, so that what its names are bound to is known: no shape
is computed here, and a line that plain refuses is left out.
"""

import contextlib
import re
import textwrap
import warnings

import torch
import world
from draft import INDENT, NUMBERS, Draft, RefusedError
from operators import LINES, LINKS
from world import LEAVES, PARTS, PRELUDE, StopError


def write(program):
    """The source of `def program(checkpoint, region, log)`, without what it imports."""
    writer = Writer(program.size, program.reckless)
    with warnings.catch_warnings(action="ignore"), writer.watch_saved():
        writer.all_of(program.forward)
        writer.line("dirty()")
        writer.close_forward()
        writer.all_of(program.after)
        writer.all_of(program.backward)
    return writer.source()


class Writer(Draft):
    """Each method from `chain` on is a kind of instruction."""

    def all_of(self, instructions):
        for instruction in instructions:
            with self.undone_if_refused():
                self.one(instruction)

    def one(self, instruction):
        kind, picks = instruction.kind, instruction.picks
        if kind in LINES and kind not in ("around", "hooks around"):
            template = LINES[kind][(picks[0] + 24 * (picks[3] // 12)) % len(LINES[kind])]
            self.templated(kind, template, picks)
        else:
            getattr(self, kind.replace(" ", "_"))(instruction)

    def templated(self, kind, template, picks):
        text, a = self.fill_in(template, picks)
        writes = self.writes(kind, text)
        if writes and not self.may_write(a):
            raise RefusedError(text)
        if writes and self.hooks and self.reads_what_it_writes(a, text):
            raise RefusedError(text)
        if kind == "part write" and not self.may_write_parts(text):
            raise RefusedError(text)
        unseen = "refilled" in text or ".data." in text or kind == "part write"
        self.lasting_writes += unseen or (writes and self.is_held(a))
        was_born = self.address(self.tensor(a)) in self.born
        if kind in ("out", "in place", "random state", "effect", "part write"):
            self.line(text)
        else:
            self.bind(text)
        if "from_" in text and "copy" not in text:
            self.shared.add(self.address(self.tensor(a)))
        if "refilled" in text and was_born:
            self.born.add(self.address(self.tensor(a)))
        if "checkpoint" in text and not self.open_regions:
            self.closed_regions += 1

    def reads_what_it_writes(self, name, text):
        """Whether a hook that keeps the very tensor keeps one that the line itself writes."""
        address = self.address(self.tensor(name))
        others = set(re.findall(r"\b[vabcx]\w*\d", text)) - {name}
        tensors = [self.names[other] for other in others if torch.is_tensor(self.names.get(other))]
        return address in map(self.address, tensors) or len(re.findall(rf"\b{name}\b", text)) > 1

    def writes(self, kind, text):
        """Whether the line writes the tensor that it is chosen for."""
        if kind in ("in place", "out"):
            return True
        if kind in ("alike", "unseen", "loop", "part", "part write"):
            return False
        return any(sign in text for sign in ("_(", "inplace", "Halve"))

    def block(self, header, body, context=None):
        """Adds the header with the body below it, as far as the body comes without a StopError."""
        self.add(header)
        self.depth += 1
        before = len(self.lines)
        try:
            with context or contextlib.nullcontext():
                self.all_of(body)
        finally:
            if len(self.lines) == before:
                self.add("pass")
            self.depth -= 1

    def chain(self, instruction):
        """Operators on each other's results, to which no name is bound."""
        picks = instruction.picks
        text, _ = self.fill_in("{a}", picks)
        for n in range(3 + picks[0] % 4):
            link = LINKS[(picks[0] + picks[2] * 24 + n * (1 + picks[3])) % len(LINKS)]
            longer = link.format(a=f"({text})" if n else text, s=NUMBERS[picks[3] % 4])
            if self.is_usable(self.would_be(longer)):
                text = longer
        self.bind(text)

    def around(self, instruction):
        manager = self.choose(LINES["around"], instruction.picks[0])
        self.hooks += "packing" in manager
        self.block(f"with {manager}:", instruction.body, self.value(manager))
        self.hooks -= "packing" in manager

    def hooks_around(self, instruction):
        """Regions inside of hooks of the user."""
        manager = self.choose(LINES["hooks around"], instruction.picks[0])
        self.hooks += 1
        try:
            self.block(f"with {manager}:", instruction.body, self.value(manager))
        finally:
            self.hooks -= 1

    def scope(self, instruction):
        self.block("with region():", instruction.body, self.in_region())

    def branch(self, instruction):
        name = self.choose(self.in_sight(), instruction.picks[1])
        condition = f"float({name}.detach().abs().sum()) > {NUMBERS[instruction.picks[0] % 4]}"
        if not self.value(condition):
            condition = f"not {condition}"
        self.block(f"if {condition}:", instruction.body)

    def attempt(self, instruction):
        self.catching += 1
        try:
            self.block("try:", instruction.body)
        except StopError:
            pass
        finally:
            self.catching -= 1
            self.add("except StopError:")
            self.add(INDENT + "log('stopped')")

    def stop(self, _):
        if not self.catching:
            raise RefusedError
        self.add("raise StopError")
        raise StopError

    def forget(self, instruction):
        """Of the scope's own names some, but for the last."""
        names = [name for name in self.scopes[-1] if name.startswith("v")][:-1]
        gone = names[instruction.picks[0] % 4 :: 1 + instruction.picks[1] % 3]
        if not gone:
            raise RefusedError
        self.add(f"del {', '.join(gone)}")
        for name in gone:
            self.scopes[-1].remove(name)
            del self.names[name]

    def release(self, instruction):
        """Frees the bytes of a tensor that nobody needs any more, and forgets it."""
        own = [name for name in self.scopes[-1] if name.startswith("v")][:-1]
        name = self.choose(filter(self.may_free, own), instruction.picks[0])
        self.line(f"free({name})")
        self.lasting_writes += 1
        self.add(f"del {name}")
        self.scopes[-1].remove(name)
        del self.names[name]

    def call(self, instruction):
        """A function of some tensors, and a call of it."""
        picks = instruction.picks
        count = 1 + picks[0] % 3
        arguments = [self.choose(self.in_sight(), picks[1] + n * picks[2]) for n in range(count)]
        name = self.fresh("f")
        parameters = [self.fresh("a") for _ in arguments]
        begin, lasting_writes = len(self.lines), self.lasting_writes
        stopped = False
        context = contextlib.nullcontext() if picks[0] % 5 == 4 else self.in_region()
        self.names.update((p, self.tensor(a)) for p, a in zip(parameters, arguments, strict=True))
        self.scopes.append(list(parameters))
        self.functions.append([])
        try:
            self.block(f"def {name}({', '.join(parameters)}):", instruction.body, context)
        except StopError:
            stopped = True
        returned = self.results(picks)
        self.depth += 1
        self.add(f"return {', '.join(returned)}")
        self.depth -= 1
        values = [self.tensor(result) for result in returned]
        for own in self.scopes.pop():
            del self.names[own]
        self.functions.pop()
        exec(textwrap.dedent("\n".join(self.lines[begin:])), self.names)
        if self.lasting_writes == lasting_writes:  # a second call would write what others read
            self.functions[-1].append((name, count))
        results = self.add_call(name, arguments, parameters, values, picks)
        if stopped:
            raise StopError
        self.names.update(zip(results, values, strict=True))
        self.scopes[-1].extend(results)

    def results(self, picks):
        own = self.scopes[-1]
        count = 1 + picks[3] % 2
        return list(dict.fromkeys(self.choose(own, n * (1 + picks[2])) for n in range(count)))

    def add_call(self, name, arguments, parameters, values, picks):
        results = [self.fresh("v") for _ in values]
        if picks[3] % 3 == 0:
            arguments = [*arguments[:-1], f"{parameters[-1]}={arguments[-1]}"]
        inside = ", ".join(arguments)
        how = f"{name}({inside})" if picks[0] % 5 == 4 else f"checkpoint({name}, {inside})"
        self.add(f"{', '.join(results)} = {how}")
        return results

    def call_again(self, instruction):
        """A call of a function that was written before; on no leaf, which it might write."""
        picks = instruction.picks
        values = [name for name in self.in_sight() if name.startswith(("v", "a"))]
        if self.hooks or self.pinned:
            raise RefusedError  # it might write what hooks keep, and nobody would notice
        known = [function for scope in self.functions for function in scope]
        name, count = self.choose(known, picks[0])
        arguments = [self.choose(values, picks[1] + n * picks[2]) for n in range(count)]
        self.bind(f"checkpoint({name}, {', '.join(arguments)})")

    # ---- After forward

    def close_forward(self):
        self.add(f"log('forward', {', '.join(self.scopes[0])}, torch.get_rng_state())")

    def change(self, instruction):
        kind = ("in place", "out")[instruction.picks[3] % 2]
        template = LINES[kind][instruction.picks[0] % len(LINES[kind])]
        text, a = self.fill_in(template, instruction.picks)
        if not re.match(r"^[a-z]\w*\.|^torch", text) or not self.may_write(a):
            raise RefusedError(text)
        self.line(f"with torch.no_grad(): {text}")

    def roots(self):
        return [n for n in self.scopes[0] if self.tensor(n).requires_grad]

    def backward(self, instruction):
        root = self.choose([n for n in self.roots() if n not in LEAVES], instruction.picks[0])
        retain = ", ".join(["retain_graph=True"] * (instruction.picks[1] % 3 > 0))
        act = f"energy({root}).backward({retain})"
        self.line(f"log.attempt('backward', lambda: {act})")

    def everything(self, _):
        """Backward of all results at once."""
        roots = [name for name in self.roots() if name not in LEAVES]
        self.line(f"log.attempt('everything', lambda: total({', '.join(roots)}).backward())")

    def gradient(self, instruction):
        """Of a result by a leaf or by what lies between, once or to be differentiated again."""
        picks = instruction.picks
        root = self.choose([n for n in self.roots() if n not in LEAVES], picks[0])
        by = self.choose(self.roots(), picks[1])
        options = ("retain_graph=True", "create_graph=True", "retain_graph=True")[picks[2] % 3]
        self.bind(f"torch.autograd.grad(energy({root}), {by}, {options})[0]")

    # ---- The end

    def source(self):
        tensors = [name for name in self.scopes[0] if name.startswith("v") or name == "bank"]
        prelude = [name for name in PRELUDE if name in self.names]
        start = [f"{INDENT}{n} = {PRELUDE[n].format(size=self.size)}" for n in prelude]
        ends = [f"log('end', {', '.join(tensors)}, torch.get_rng_state())"]
        # Of a gradient that a Function prepared, the version is that of whoever else has it.
        how = "copied({})" if "Prepared" in "".join(self.lines) else "{}"
        ends += [f"log('{n}.grad', {how.format(f'{n}.grad')})" for n in LEAVES]
        ends += ["log('effects', effects)"] * ("effects" in prelude)
        ends += ["log('g0', g0.get_state())"] * ("g0" in prelude)
        ends += ["log('scale', scale, scale.main_grad)"] * ("scale" in prelude)
        ends += ["log('stepped', *stepping_leaves)"] * ("stepping_leaves" in prelude)
        ends += [f"log('{name}', {name})" for name in PARTS if name in prelude]
        ends += [
            f"log('{n}', *{n}.buffers(), *[p.grad for p in {n}.parameters()])"
            for n in world.MODULES
            if n in prelude
        ]
        ends = [INDENT + line for line in ends]
        return "\n".join(["def program(checkpoint, region, log):", *start, *self.lines, *ends, ""])
