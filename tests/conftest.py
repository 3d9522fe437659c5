"""What every Python test of the repository starts from: one thread, one seed, fresh counters."""

import os
import subprocess
import sys

import pytest
import torch

IN_CHILD = "REMAT_TEST_IN_CHILD"

pytest.register_assert_rewrite("bitwise")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "isolated(timeout=60): runs in a process of its own, which may crash or hang"
    )


@pytest.fixture(autouse=True)
def determinism():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "remat" in sys.modules:
        sys.modules["remat"].reset_stats()


@pytest.fixture
def always_recompute():
    """Regions recompute what a small example would keep, since that takes less."""
    with sys.modules["remat"]._testing.always_recompute():
        yield


def pytest_pyfunc_call(pyfuncitem):
    """An isolated test runs pytest again for itself, so that a crash or a hang fails it alone."""
    marker = pyfuncitem.get_closest_marker("isolated")
    if marker is None or os.environ.get(IN_CHILD):
        return None
    test = f"{pyfuncitem.path}::{pyfuncitem.name}"
    timeout = marker.kwargs.get("timeout", 60)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    try:
        child = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, IN_CHILD: "1"},
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"still running after {timeout} s", pytrace=False)
    if " skipped" in child.stdout:
        pytest.skip(child.stdout)
    if child.returncode != 0:
        pytest.fail(f"exit {child.returncode}\n{child.stdout}\n{child.stderr}", pytrace=False)
    return True
