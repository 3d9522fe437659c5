"""The tests of remat's own rules, a checkpoint each, with remat and with torch's checkpoint.

    python own_tests.py            # remat
    python own_tests.py torch

Tests that ask for more than a checkpoint are skipped with torch's.
"""

import argparse
import collections
import pathlib
import sys

import suite

TESTS = pathlib.Path(__file__).resolve().parents[1]
TRANSFORMS = ("test_tensor_kinds.py", "test_transforms.py")
GROUPS = ("transforms, modes, kinds of tensors", "design review", "two processes")
AT_LEAST = 140  # tests; fewer means that some file could not be imported


def group_of(test):
    if test.startswith("distributed"):
        return GROUPS[2]
    return GROUPS[0] if any(name in test for name in TRANSFORMS) else GROUPS[1]


def run(implementation):
    """The rows of all tests, by name."""
    stand_in = {"REMAT_STAND_IN": implementation}
    return suite.run("", TESTS, ["review", "distributed"], stand_in, timeout=1200)


def counts(rows):
    """Outcomes by group."""
    table = {group: collections.Counter() for group in GROUPS}
    for test, row in rows.items():
        table[group_of(test)][row["outcome"]] += 1
    return table


def failures(rows, group=None):
    """Why, by name."""
    return {
        test: row["why"]
        for test, row in rows.items()
        if row["outcome"] == "failed" and group in (None, group_of(test))
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat")
    options = parser.parse_args()
    rows = run(options.implementation)
    for group, outcomes in counts(rows).items():
        print(f"{options.implementation}, {group}: {dict(outcomes)}")
    return suite.verdict(rows, failures(rows), AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
