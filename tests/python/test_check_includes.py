"""The script that checks the direction of includes reports what goes against an arrow."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_includes.py"


def check(root: Path, file: str, include: str) -> subprocess.CompletedProcess:
    path = root / file
    path.parent.mkdir(parents=True)
    path.write_text(f"#pragma once\n\n#include {include}\n")
    return subprocess.run(
        [sys.executable, SCRIPT, root], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("remat/tape/bad.h", '"remat/policy/policy.h"'),
        ("remat/tape/bad.h", "<torch/torch.h>"),
        ("remat/policy/bad.cpp", "<ATen/core/Tensor.h>"),
        ("remat/record/bad.cpp", '"remat/saved/handle.h"'),
        ("remat/memory/bad.h", '"remat/tape/tape.h"'),
        ("remat/replay/bad.h", '"remat/remat.h"'),
        ("remat/bad.h", '"models/config.h"'),
        ("models/bad.cpp", '"remat/memory/memory.h"'),
    ],
)
def test_an_include_against_an_arrow_is_reported_with_its_place(tmp_path, file, include):
    checked = check(tmp_path, file, include)
    assert checked.returncode == 1
    assert f"{file}:3: includes {include[1:-1]}; allowed here: " in checked.stdout


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("remat/tape/good.h", "<vector>"),
        ("remat/policy/good.h", '"remat/tape/tape.h"'),
        ("remat/record/good.h", "<ATen/core/Tensor.h>"),
        ("remat/replay/good.cpp", '"remat/saved/handle.h"'),
        ("remat/region.cpp", '"remat/replay/replay.h"'),
        ("models/good.cpp", '"models/config.h"'),
        ("models/good.h", "<ATen/core/Tensor.h>"),
    ],
)
def test_an_include_along_an_arrow_is_silent(tmp_path, file, include):
    checked = check(tmp_path, file, include)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_a_room_without_a_rule_is_an_error(tmp_path):
    checked = check(tmp_path, "remat/attic/new.h", "<vector>")
    assert checked.returncode != 0
    assert "remat/attic is not in the table" in checked.stderr


def test_the_rooms_of_this_repository_keep_their_arrows():
    checked = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
