"""Public bug reports about checkpointing: under remat each case is what it is without."""

import pathlib
import sys

import pytest
import torch

REPORTS = pathlib.Path(__file__).resolve().parents[1] / "reports"
sys.path.insert(0, str(REPORTS))

from judge import judge  # noqa: E402
from run_all import CASES, run_case  # noqa: E402

# All but 39, weights without storage outside their use: backward raises an error that says so.
REQUIRED = [
    "01_first_layer_no_grad_input",
    "02_batchnorm_stats_once",
    "03_kv_cache_append",
    "04_aux_loss_tracker_once",
    "05_python_random_branch",
    "06_explicit_generator",
    "07_default_rng_and_sdpa",
    "08_autocast_weight_cache",
    "09_inplace_view_output",
    "10_argument_mutated_inside",
    "11_argument_mutated_after",
    "12_structured_outputs",
    "13_keyword_tensors",
    "14_autograd_grad_with_inputs",
    "15_double_backward",
    "16_grad_inside_region",
    "17_backward_twice",
    "18_saved_tensors_read_twice",
    "19_rrelu_noise",
    "20_gradient_hooks_once",
    "21_amax_history",
    "22_moe_routing_bias",
    "23_default_dtype_and_device",
    "24_memory_kept_after_forward",
    "25_grad_mode_branch",
    "26_threads",
    "27_reference_cycle",
    "28_ddp_shared_block",
    "40_detached_and_alias_outputs",
    "41_complex_sparse_rnn",
]


@pytest.mark.parametrize("name", REQUIRED)
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
