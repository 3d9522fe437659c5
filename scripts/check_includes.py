#!/usr/bin/env python3
"""Checks the direction of includes: which room may include which.

    scripts/check_includes.py [ROOT]

Prints every include that goes against an arrow, and exits with 1 if there is one.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

# A room, and the rooms it may include besides itself. `front` is the front door: remat/*.{h,cpp}.
# Rooms beside remat/ are folders of the root.
MAY_INCLUDE = {
    "tape": set(),
    "policy": {"tape", "plan"},
    "plan": set(),
    "memory": set(),
    "record": {"tape", "policy", "memory"},
    "saved": {"tape", "policy", "record"},
    "replay": {"tape", "memory", "record", "saved"},
    "budget": {"tape", "policy", "plan", "record", "replay"},
    "front": {"tape", "policy", "memory", "record", "saved", "replay", "plan", "budget"},
    "models": set(),
    "finetune": {"front", "memory", "policy", "plan", "models"},
    "app": {"front", "memory", "policy", "plan", "models", "finetune"},
}
BESIDE_REMAT = ("models", "finetune", "app")
WITHOUT_LIBTORCH = {"tape", "policy", "plan"}
FOLDERS = ("remat/", *(f"{room}/" for room in BESIDE_REMAT))

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
LIBTORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")


class Violation(NamedTuple):
    file: Path
    line: int
    included: str
    allowed: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: includes {self.included}; allowed here: {self.allowed}"


def room_of(path: Path) -> str:
    """The room of a path below the repository's root, such as remat/tape/tape.h."""
    if path.parts[0] in BESIDE_REMAT:
        return path.parts[0]
    return path.parts[1] if len(path.parts) > 2 else "front"


def folder_of(room: str) -> str:
    if room in BESIDE_REMAT:
        return room
    return "remat" if room == "front" else f"remat/{room}"


def allowed_in(room: str) -> str:
    rooms = sorted(folder_of(other) for other in MAY_INCLUDE[room] | {room})
    libtorch = "no libtorch" if room in WITHOUT_LIBTORCH else "libtorch"
    return f"{', '.join(rooms)}, {libtorch}"


def is_allowed(room: str, included: str) -> bool:
    if LIBTORCH.match(included):
        return room not in WITHOUT_LIBTORCH
    if included.startswith(FOLDERS):
        return room_of(Path(included)) in MAY_INCLUDE[room] | {room}
    return True


def violations(root: Path) -> list[Violation]:
    found = []
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.[hc]*")):
        if path.suffix not in {".h", ".cpp"}:
            continue
        file = path.relative_to(root)
        room = room_of(file)
        if room not in MAY_INCLUDE:
            sys.exit(f"{file}: remat/{room} is not in the table of {Path(__file__).name}: add it.")
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            if include and not is_allowed(room, include[1]):
                found.append(Violation(file, number, include[1], allowed_in(room)))
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = violations(root)
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
