"""What is live, without what earlier tests left to the garbage collector: it could go meanwhile."""

import gc

import remat


def live_bytes():
    remat.memory.install()
    gc.collect()
    return remat.memory.live_bytes()
