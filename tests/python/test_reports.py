"""Public bug reports about checkpointing: under remat each case is what it is without."""

import pathlib
import sys

import pytest
import torch

REPORTS = pathlib.Path(__file__).resolve().parents[1] / "reports"
sys.path.insert(0, str(REPORTS))

from judge import judge  # noqa: E402
from run_all import CASES, run_case  # noqa: E402

NAMES = sorted(path.stem for path in CASES.glob("[0-9]*.py"))


def test_every_report_is_here():
    assert len(NAMES) == 31


@pytest.mark.parametrize("name", NAMES)
def test_report(name):
    assert run_case(CASES / f"{name}.py") == []


def test_judge_names_each_kind_of_miss():
    expect = {
        "equal_plain": ["grad", "right"],
        "value": {"steps": (2, "two forwards")},
        "one_of": {"after": (["raised", 6.0], "no other number")},
        "at_most": {"bytes": (10, "boundaries only")},
    }
    got = {"grad": torch.ones(2), "right": torch.ones(2), "steps": 3, "after": 5.0, "bytes": 11}
    plain = {"grad": torch.zeros(2), "right": torch.ones(2)}
    assert [miss.split(":")[0] for miss in judge(expect, got, plain)] == [
        "grad",
        "steps",
        "after",
        "bytes",
    ]
