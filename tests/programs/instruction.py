"""A random program as data: what Hypothesis makes, and makes smaller."""

import dataclasses

from hypothesis import strategies as st

# More often than once means more likely.
SIMPLE = (
    *["chain"] * 10,
    *["pointwise"] * 4,
    *["in place"] * 3,
    *["shaped", "view", "random", "function", "forget"] * 2,
    *["reduction", "dtype", "out", "fill", "random state", "module", "transform", "effect"],
    *["stop", "call again"],
    *["part", "part write", "unseen"] * 2,
    *["alike", "loop", "release"],
)
ENCLOSING = (*["call"] * 4, *["scope"] * 2, "around", "branch", "attempt")
OUTERMOST = (*["call", "scope", "attempt"] * 2, "hooks around")
BACKWARD = ("everything", "gradient", "backward")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """`picks` choose among what is possible where the instruction stands; any numbers are legal."""

    kind: str
    picks: tuple[int, ...]
    body: tuple["Instruction", ...] = ()


@dataclasses.dataclass(frozen=True)
class Program:
    forward: tuple[Instruction, ...]
    after: tuple[Instruction, ...]  # what happens to tensors between forward and backward
    backward: tuple[Instruction, ...]
    size: int = 4  # of the leaves, in both dimensions
    reckless: bool = False  # may change what autograd has saved: plain then raises in backward


CHOICES = 24  # that one pick can tell apart


def digits(number):
    return tuple(number // CHOICES**place % CHOICES for place in range(4))


picks = st.integers(0, CHOICES**4 - 1).map(digits)


def some(kinds, most):
    return st.lists(st.builds(Instruction, st.sampled_from(kinds), picks), max_size=most).map(tuple)


def around(body):
    """Instructions of which some have a body."""
    enclosing = st.builds(Instruction, st.sampled_from(ENCLOSING), picks, body)
    simple = st.builds(Instruction, st.sampled_from(SIMPLE), picks)
    return st.lists(enclosing | simple | simple, max_size=6).map(tuple)


def outermost(body):
    enclosing = st.builds(Instruction, st.sampled_from(OUTERMOST), picks, body)
    return st.lists(enclosing, min_size=1, max_size=3).map(tuple)


programs = st.builds(
    Program,
    forward=outermost(around(around(some(SIMPLE, 5)))),
    after=some(["change", "change", "release"], 2),
    backward=st.builds(
        lambda first: (*first, Instruction("everything", (0, 0, 0, 0))), some(BACKWARD, 3)
    ),
    size=st.sampled_from([4] * 15 + [136]),  # 136 by 136 floats are above 64 KiB
    reckless=st.sampled_from([False, False, True]),
)
