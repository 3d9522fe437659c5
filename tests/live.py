"""What is live, without what earlier tests left to the garbage collector: it could go meanwhile;
and what a checkpoint may hold."""

import gc

import torch._dynamo  # noqa: F401  imported by torch's checkpoint in any case, and large

import remat


def live_bytes():
    remat.memory.install()
    gc.collect()
    return remat.memory.live_bytes()


def forget_imports():
    """Leaves what is there by now out of the collections to come, which then take no time."""
    gc.collect()
    gc.freeze()


def held_by(act):
    """What `act` returns, and how many bytes are live behind it that were not before."""
    before = live_bytes()
    result = act()
    return result, live_bytes() - before


def too_much(held, plain, torch):
    """Why these bytes behind forward are too many, as text; None where they are not. A bound is
    None where it is not known: torch's, where its own checkpoint fails."""
    if plain is not None and held > plain:
        return f"holds {held} bytes behind forward, plain {plain}"
    if torch is not None and held > 1.05 * torch:
        return f"holds {held} bytes behind forward, torch's checkpoint {torch}"
    return None
