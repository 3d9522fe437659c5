"""Random programs: whatever plain does, remat does with the same bits.

REMAT_RANDOM_PROGRAMS=10000 searches further, each time elsewhere. What is found is printed as
Python, made as small as it can be.
"""

import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

from instruction import programs
from verdict import judge
from writer import write

import remat

FEW = 500
COUNT = int(os.environ.get("REMAT_RANDOM_PROGRAMS", FEW))
POLICIES = {
    "nothing_saveable": None,
    "everything_saveable": "everything_saveable",
    "keep_ops": remat.keep_ops(["mul", "sin", "addmm", "mm", "cat"]),
}


@settings(
    max_examples=COUNT,
    derandomize=COUNT == FEW,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs, st.sampled_from(list(POLICIES)), st.sampled_from([None, 1, 3]), st.booleans())
def test_random_program(program, policy, segments, always):
    source = write(program)
    # After a backward that raised, torch's engine holds the rest of the graph as long as the thread
    # lives.
    with ThreadPoolExecutor(1) as thread:
        why = thread.submit(judge, source, POLICIES[policy], segments, always).result()
    assert why is None, f"{policy}, {segments} segments, always {always}\n{source}\n{why}"
