"""The demo's results: what counts as a difference between two runs, and the numbers of a run."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "demo"))

from result import Result, Step, differences


def run(name, losses=(2.5, 2.25), **facts):
    steps = [Step(loss, seconds=1.0, peak_bytes=8, after_forward_bytes=4) for loss in losses]
    return Result(name, tokens=512, steps=steps, **facts)


def test_equal_runs_have_no_differences():
    assert differences([run("none"), run("torch"), run("full")]) == []


def test_a_loss_that_differs_by_one_bit_is_named():
    one_bit_more = 2.2500000000000004
    assert differences([run("none"), run("full", (2.5, one_bit_more))]) == [
        "the loss of step 2 is 2.2500000000000004 in run 'full', but 2.25 in run 'none'"
    ]


def test_runs_of_another_program_agree_among_themselves():
    cli = [run(name, (2.75, 2.5), program="remat train") for name in ("cli none", "cli full")]
    assert differences([run("none"), run("full"), *cli]) == []
    cli.append(run("cli sqrt", (2.75, 2.25), program="remat train"))
    assert differences([run("none"), *cli]) == [
        "the loss of step 2 is 2.25 in run 'cli sqrt', but 2.5 in run 'cli none'"
    ]


@pytest.mark.parametrize("fact", ["held_out_before", "held_out_after", "adapter_sha256"])
def test_other_results_of_training_must_be_equal_too(fact):
    assert len(differences([run("none", **{fact: 1.0}), run("sqrt", **{fact: 2.0})])) == 1


def test_numbers_of_a_run_are_the_median_time_and_the_highest_bytes():
    times_and_bytes = [(9.0, 100, 10), (2.0, 300, 30), (4.0, 200, 20)]
    steps = [Step(2.5, *measured) for measured in times_and_bytes]
    result = Result("full", tokens=512, steps=steps)
    assert (result.step_seconds, result.tokens_per_second) == (4.0, 128.0)
    assert (result.activation_peak_bytes, result.after_forward_bytes) == (300, 30)
