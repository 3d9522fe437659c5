"""Bytes of CPU tensors, which PyTorch does not count.

:func:`install` puts a counting allocator in the place of torch's own. Tensors made before are not
counted; the memory of one that is freed serves the next.
"""

from remat import _C


def install() -> None:
    """Starts counting. Once a process; later calls do nothing."""
    _C.install_allocator()


def is_installed() -> bool:
    """Whether counting has started."""
    return _C.allocator_is_installed()


def live_bytes() -> int:
    """Bytes of CPU tensors that are alive. Starts counting if install() was not called."""
    install()
    return _C.live_bytes()


def peak_bytes() -> int:
    """The most bytes that were alive at once since the last reset_peak()."""
    install()
    return _C.peak_bytes()


def reset_peak() -> None:
    """Makes the bytes alive now the peak."""
    install()
    _C.reset_peak()
