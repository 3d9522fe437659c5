"""The demo's report: the JSON that programs read, the table, and the exit on a difference."""

import io
import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "demo"))

import report
from errors import DemoError
from progress import Progress
from result import Result, Step

import demo

MIB = 2**20


def run(name, loss=3.5, peak=400, seconds=2.0, ops=0):
    step = Step(loss, seconds, peak_bytes=peak * MIB, after_forward_bytes=peak * MIB // 2)
    return Result(name, tokens=512, ops_replayed=ops, steps=[step])


def runs():
    return [run("none", peak=1600), run("torch"), run("full", ops=1234), run("sqrt", seconds=1.5)]


def test_json_has_the_facts_of_every_run():
    none, _, full, _ = json.loads(report.to_json(runs()))["runs"]
    assert none["name"] == "none"
    assert none["losses"] == [3.5]
    assert none["activation_peak_bytes"] == 1600 * MIB
    assert none["after_forward_bytes"] == 800 * MIB
    assert none["step_seconds"] == 2.0
    assert none["tokens_per_second"] == 256.0
    assert full["ops_replayed"] == 1234


def test_table_puts_ratios_under_what_they_compare():
    lines = report.table(runs()).splitlines()
    peak = next(at for at, line in enumerate(lines) if line.startswith("activation peak"))
    assert lines[0].split() == ["none", "torch", "full", "sqrt"]
    assert lines[peak + 1].split() == ["/", "none", "1.000", "0.250", "0.250", "0.250"]
    assert lines[peak + 2].split() == ["/", "torch", "4.000", "1.000", "1.000", "1.000"]


def test_table_is_aligned():
    lines = report.table(runs()).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_sentence_compares_with_the_first_run():
    (*_, sqrt) = report.sentences(runs())
    assert sqrt == (
        "sqrt: 400.0 MiB of activations at the peak where none needs 1,600.0 MiB (0.25 x); "
        "a step takes 0.75 x its time."
    )


def test_demo_ends_well_when_the_runs_agree(tmp_path):
    stream = io.StringIO()
    assert demo.conclude(runs(), tmp_path / "report.json", Progress(stream)) == 0
    assert "bit for bit" in stream.getvalue()


def test_demo_fails_when_a_loss_differs_and_still_reports(tmp_path):
    stream = io.StringIO()
    different = [*runs()[:3], run("sqrt", loss=3.25)]
    with pytest.raises(DemoError, match=r"loss of step 1 is 3\.25 in run 'sqrt'"):
        demo.conclude(different, tmp_path / "report.json", Progress(stream))
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    assert "bit for bit" not in stream.getvalue()
