"""Every operator and every module that PyTorch's own databases know: under remat as without."""

import pathlib
import sys

import pytest

PEERS = pathlib.Path(__file__).resolve().parents[1] / "peers"
sys.path.append(str(PEERS))

import hf_strict  # noqa: E402
import module_sweep  # noqa: E402
import opinfo_sweep  # noqa: E402
import sweep  # noqa: E402
from sweep import failures, summary  # noqa: E402

# How many of the database's operators have a backward pass on the CPU, at least.
DIFFERENTIABLE = {
    "float32": 530,
    "float64": 530,
    "bfloat16": 440,
    "float16": 440,
    "complex64": 310,
}


@pytest.mark.parametrize("dtype", DIFFERENTIABLE)
def test_no_operator_differs(dtype):
    rows = opinfo_sweep.sweep("remat", dtype, samples=1)
    assert failures(rows) == {}
    assert failures(rows, "heavy") == {}
    assert summary(rows)["passed"] >= DIFFERENTIABLE[dtype]
    assert summary(rows)["cases recomputed"] > 0.9 * summary(rows)["cases passed"]


def test_no_module_differs():
    rows = module_sweep.sweep("remat", samples=2)
    assert failures(rows) == {}
    assert failures(rows, "heavy") == {}
    assert summary(rows)["passed"] > 105


def test_no_model_of_transformers_differs():
    """One of each head, with experts and with a recurrence; make test-all has the others."""
    models = ["causal/llama", "causal/mixtral", "causal/mamba", "masked/bert", "seq2seq/t5"]
    rows = hf_strict.sweep("remat", [*models, "image/vit"])
    assert failures(rows) == {}
    assert failures(rows, "heavy") == {}
    assert summary(rows)["cases recomputed"] == len(models) + 1


def test_sweep_finds_the_open_fault_of_torch():
    """pytorch#193671: torch's checkpoint stops before RReLU has made its noise."""
    rows = opinfo_sweep.sweep("torch", "float32", only="^nn.functional.rrelu$", jobs=1)
    assert failures(rows) != {}


WORKER = """
import os, sys
import sweep  # noqa: E402
sweep.work(lambda name: os._exit(7) if name == "crashes" else sweep.Row(name))
"""


def test_a_crash_costs_one_entry():
    names = ["before", "crashes", "behind"]
    rows = sweep.drive([sys.executable, "-c", WORKER], names, jobs=1, folder=PEERS)
    assert list(rows) == names
    assert list(failures(rows)) == ["crashes, process"]
    assert "exit 7" in failures(rows)["crashes, process"]
