"""transformers' own tests of checkpointing on 28 tiny models, with our checkpoint.

    python transformers_tests.py            # remat
    python transformers_tests.py torch

The sources are those of the installed version (fetch.sh).
"""

import argparse
import collections
import pathlib
import subprocess
import sys

import suite

HERE = pathlib.Path(__file__).resolve().parent
AT_LEAST = 150  # tests; fewer means that something could not be imported

# Wants the function that it hands to the checkpoint to be called a second time, and says so.
CALLED_AGAIN = "1 not greater than 1"


def run(implementation):
    """The rows of all tests, by name."""
    subprocess.run([HERE / "fetch.sh"], check=True, stdout=subprocess.DEVNULL)
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    return suite.run(implementation, HERE, [str(HERE / "transformers_cases.py")], offline)


def outcome(row):
    wants_a_call = row["outcome"] == "failed" and CALLED_AGAIN in row["why"]
    return "wants a second call" if wants_a_call else suite.outcome(row)


def counts(rows):
    """Outcomes by the test's name."""
    table = collections.defaultdict(collections.Counter)
    for test, row in rows.items():
        table[test.split("::")[-1]][outcome(row)] += 1
    return table


def failures(rows):
    """Why, by name, without those that want a second call."""
    return {suite.short(test): row["why"] for test, row in rows.items() if outcome(row) == "failed"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat")
    options = parser.parse_args()
    rows = run(options.implementation)
    print(f"{options.implementation}: {len(rows)} tests of transformers")
    for name, outcomes in sorted(counts(rows).items()):
        print(f"  {name}: {dict(outcomes)}")
    return suite.verdict(rows, failures(rows), AT_LEAST)


if __name__ == "__main__":
    sys.exit(main())
