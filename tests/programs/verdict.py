"""Runs a written program plainly and under remat, and says what differs."""

import contextlib
import pathlib
import sys
import warnings

import torch
import world

import remat

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bits import same
from implementations import call_plainly
from world import Log, is_about_a_change


class Run:
    """What a program showed, and the error that ended it."""

    def __init__(self, program, checkpoint, region):
        self.log = Log()
        self.error = None
        torch.default_generator.manual_seed(0)
        torch.set_grad_enabled(True)
        with warnings.catch_warnings(action="ignore"):
            try:
                program(checkpoint, region, self.log)
            except Exception as error:
                self.error = error.with_traceback(None)

    @property
    def entries(self):
        return self.log.entries

    def ended_like(self, other):
        return same(self.entries, other.entries) and same_error(self.error, other.error)


def same_error(a, b):
    if a is None or b is None:
        return a is b
    return type(a) is type(b) and (is_about_a_change(a) == is_about_a_change(b))


def load(source):
    names = world.names()
    exec(compile(source, "<program>", "exec"), names)
    return names["program"]


def judge(source, policy=None, segments=None):
    """What differs from plain, as text; None where nothing does.

    Where plain raises because a saved tensor was changed, remat may raise as well, or go on with
    the values that forward saw: what plain gives when it saves copies as well."""
    program = load(source)
    plain = Run(program, call_plainly, contextlib.nullcontext)
    ours = run_with_remat(program, policy, segments)
    if ours.ended_like(plain):
        return None
    if plain.error is None or not is_about_a_change(plain.error):
        return difference(ours, plain)
    with torch.autograd.graph.saved_tensors_hooks(keep, give):
        careful = Run(program, call_plainly, contextlib.nullcontext)
    if ours.ended_like(careful):
        return None
    raised = ours.error is not None and is_about_a_change(ours.error)
    if raised and same(ours.entries, careful.entries[: len(ours.entries)]):
        return None
    return difference(ours, careful)


def keep(tensor):
    held = tensor.detach()
    return held, held._version, held.clone()


def give(saved):
    """What plain would use, but for a tensor that was changed: kernels write noise and statistics
    into what is saved already, which is no change."""
    held, version, copy = saved
    return held if held._version == version else copy


def run_with_remat(program, policy, segments):
    def checkpoint(function, *args, **kwargs):
        return remat.checkpoint(function, *args, policy=policy, **kwargs)

    return Run(program, checkpoint, lambda: remat.region(policy=policy, segments=segments))


def difference(ours, plain):
    for (label, got), (_, expected) in zip(ours.entries, plain.entries, strict=False):
        for index, (one, other) in enumerate(zip(got, expected, strict=False)):
            if not same(one, other):
                return f"{label}, value {index}:\n{one}\nplain\n{other}\n{errors(ours, plain)}"
    return errors(ours, plain)


def errors(ours, plain):
    return f"error: {ours.error!r}\nplain: {plain.error!r}"
