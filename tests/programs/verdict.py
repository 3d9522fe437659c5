"""Runs a written program plainly and under remat, and says what differs."""

import contextlib
import pathlib
import re
import sys
import warnings

import torch
import world

import remat
from remat import _testing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bits import same
from implementations import call_plainly, find
from live import forget_imports, live_bytes, too_much
from world import Log, is_about_a_change, is_hollow

forget_imports()  # each program collects garbage a few times

# A function that torch calls again reads what it has freed.
TORCH_CRASHES = re.compile("free|refilled|hollow", re.IGNORECASE)
ASKS_WHO_IT_IS = re.compile("Recognizing|OwnGradient|MainGradient")


class Run:
    """What a program showed, and the error that ended it."""

    def __init__(self, program, checkpoint=call_plainly, region=contextlib.nullcontext):
        before = live_bytes()
        self.log = Log(live_bytes)
        self.error = None
        torch.default_generator.manual_seed(0)
        torch.set_grad_enabled(True)
        with warnings.catch_warnings(action="ignore"):
            try:
                program(checkpoint, region, self.log)
            except Exception as error:
                self.error = error.with_traceback(None)
        self.held = None if self.log.held is None else self.log.held - before

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


def judge(source, policy=None, segments=None, always=False):
    """What differs from plain, as text; None where nothing does.

    Where plain raises because a saved tensor was changed, remat may raise as well, or go on with
    the values that forward saw: what plain gives when it saves copies as well.

    Where nothing differs, it may hold no more bytes behind forward than plain, nor 1.05 times those
    of torch's checkpoint where that is as plain. `always` is for what it does where it recomputes
    although that saves nothing, as it may where tensors are this small."""
    program = load(source)
    plain = Run(program)
    with _testing.always_recompute() if always else contextlib.nullcontext():
        ours = run_with_remat(program, policy, segments)
    if ours.ended_like(plain):
        # Again: what a thread's first region leaves for the next one counts for none.
        weighed = policy is None and not always  # a policy may ask to keep what plain does not
        again = run_with_remat(program, policy, segments) if weighed else None
        return weigh(again, plain, source) if again and again.held is not None else None
    if plain.error is None or not is_about_a_change(plain.error):
        return difference(ours, plain)
    if ASKS_WHO_IT_IS.search(source):
        return None  # copies that hooks hand out are never the parameter itself
    with torch.autograd.graph.saved_tensors_hooks(keep, give):
        careful = Run(program)
    if ours.ended_like(careful):
        return None
    raised = ours.error is not None and is_about_a_change(ours.error)
    if raised and same(ours.entries, careful.entries[: len(ours.entries)]):
        return None
    return difference(ours, careful)


FEW_BYTES = 2048  # what a program's values take that are wanted only while its region is open


def weigh(ours, plain, source):
    """Why ours holds too many bytes behind forward, as text; None where it does not."""
    torchs = None if TORCH_CRASHES.search(source) else Run(load(source), find("torch"))
    bound = torchs.held if torchs and torchs.ended_like(plain) else None
    return too_much(ours.held - FEW_BYTES, plain.held, bound)


def keep(tensor):
    held = tensor.detach()
    return held, held._version, held if is_hollow(held) else held.clone()


def give(saved):
    """What plain would use, but for a tensor that was changed: kernels write noise and statistics
    into what is saved already, which is no change. A backward may write what it is given."""
    held, version, copy = saved
    return held if held._version == version else copy.clone()


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
