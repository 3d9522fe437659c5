"""PyTorch's own tests of activation checkpointing, with our checkpoint in the place of its own.

    python torch_tests.py            # remat
    python torch_tests.py torch

The sources are those of PyTorch 2.6 (fetch.sh), and newer_torch_tests.py has what they lack. Each
test belongs to a class of torch_classes.tsv, which says what it holds a checkpoint to.
"""

import argparse
import collections
import csv
import pathlib
import subprocess
import sys

import suite

HERE = pathlib.Path(__file__).resolve().parent
CLASSES = {
    "B": "behaviour",
    "C": "calls of the function, by which behaviour is told",
    "M": "texts of torch's errors, by which behaviour is told",
    "O": "torch's own options, context_fn, debug, early_stop, warnings",
    "R": "use_reentrant=True",
    "I": "torch's internals",
    "G": "needs a GPU",
    "X": "fails with torch's own function as well",
}
SELECTIONS = (
    (
        "test_autograd.py",
        "(TestNestedCheckpoint or TestSelectiveActivationCheckpoint or checkpoint"
        " or test_access_saved_tensor_twice) and not TestAutogradDeviceType",
    ),
    ("test_utils.py", "TestCheckpoint"),
    ("functorch/test_vmap.py", "TestVmapAPI and test_checkpoint"),
    ("test_nestedtensor.py", "test_nested_tensor_activation_checkpoint"),
    ("test_module_tracker.py", "test_confused_hierarchy"),
    ("distributed/_tools/test_mod_tracker.py", "test_ac"),
    ("distributed/fsdp/test_checkpoint_wrapper.py", ""),
    ("distributed/_composable/test_checkpoint.py", ""),
    (str(HERE / "newer_torch_tests.py"), ""),
)
AT_LEAST = 80  # tests; fewer means that some file could not be imported

# What cannot hold where no function is called again, by name. docs/exactness.md says what is tested
# in their place.
CALLS = "counts calls of the function; it is called once"
ONCE = "wants a recomputation to fail that has nothing to fail at: no function is called again"
TWICE = "wants an error when ctx.saved_tensors is read twice; plain training allows it"
REENTRANT = "wants an error of use_reentrant=True, which has no effect here"
CHANGED = "wants an error where a value that context_fn keeps is changed; it is recomputed"
CONTEXTS = "wants context_fn's second context around a second call of the function"
MODES = "looks into the dispatch modes that torch keeps values in"
NOT_OURS = {
    "TestAutograd::test_access_saved_tensor_twice_without_recomputation_works": CALLS,
    "TestNestedCheckpoint::test_nested_checkpoint_set_early_stop": CALLS,
    "TestNestedCheckpoint::test_nested_checkpoint_set_early_stop_no_recompution_needed": CALLS,
    "TestCheckpoint::test_checkpoint_trigger": CALLS,
    "TestNewer::test_checkpoint_graph_execution_group": CALLS,
    "TestAutograd::test_checkpoint_detects_non_determinism": ONCE,
    "TestAutograd::test_checkpointing_without_reentrant_custom_function_works": TWICE,
    "TestSelectiveActivationCheckpoint::test_can_only_trigger_recompute_once": ONCE,
    "TestSelectiveActivationCheckpoint::test_storage_lifetime": MODES,
    "TestSelectiveActivationCheckpoint::test_version_counter": CHANGED,
    "TestAutograd::test_checkpointing_without_reentrant_with_context_fn": CONTEXTS,
    "CheckpointWrapperTest::test_checkpoint_wrapper_args_kwargs": CONTEXTS,
    "TestAutograd::test_checkpoint_warns_if_use_reentrant_not_passed_explcitly": REENTRANT,
    "TestAutograd::test_checkpoint_valid_reset_on_error": REENTRANT,
    "TestAutograd::test_checkpointing_without_reentrant_detached_tensor_use_reentrant_True": (
        REENTRANT
    ),
    "TestCheckpoint::test_checkpoint_non_tensor_inputs_outputs": REENTRANT,
    "TestCheckpoint::test_checkpoint_partial_grad": REENTRANT,
    "TestCheckpoint::test_checkpoint_valid": REENTRANT,
}


def classes():
    with (HERE / "torch_classes.tsv").open() as file:
        return {row[0]: row[1] for row in csv.reader(file, delimiter="\t") if row[0][0] != "#"}


def class_of(test, known):
    """Of its own name, else of the longest name in the table with which it begins."""
    own = suite.short(test)
    last = own.split("::")[-1]
    begins = sorted((name for name in known if last.startswith(name)), key=len)
    return next((known[name] for name in (own, last, *reversed(begins)) if name in known), "?")


def run(implementation):
    """The rows of all tests, by name."""
    subprocess.run([HERE / "fetch.sh"], check=True, stdout=subprocess.DEVNULL)
    folder = suite.SOURCES / "torch" / "test"
    slow = {"PYTORCH_TEST_WITH_SLOW": "1", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    rows = {}
    for file, pattern in SELECTIONS:
        rows |= suite.run(implementation, folder, [file, "-k", pattern], slow)
    return rows


def counts(rows):
    """Outcomes by class."""
    known = classes()
    table = collections.defaultdict(collections.Counter)
    for test, row in rows.items():
        table[class_of(test, known)][suite.outcome(row)] += 1
    return table


def failures(rows):
    """Why, by name, without what cannot hold."""
    known = classes()
    return {
        suite.short(test): row["why"]
        for test, row in rows.items()
        if row["outcome"] == "failed"
        and class_of(test, known) not in "GX"
        and suite.short(test) not in NOT_OURS
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat")
    options = parser.parse_args()
    rows = run(options.implementation)
    table = counts(rows)
    print(f"{options.implementation}: {len(rows)} tests of PyTorch")
    for name in sorted(table):
        print(f"  {name}  {CLASSES.get(name, 'no class')}: {dict(table[name])}")
    return suite.verdict(rows, failures(rows), AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
