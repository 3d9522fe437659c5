"""The text: the Jargon File, public domain, from the Debian package jargon-text."""

import gzip
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from errors import DemoError

PACKAGE = "jargon-text"
FILE = Path("usr/share/doc/jargon-text/jargon.txt.gz")

# "   :ack: /ak/, interj." opens an entry; "  B" alone on a line opens a letter's list of headwords.
_ENTRY = re.compile(r"^   (?=:\S)", re.MULTILINE)
_HEADWORDS = re.compile(r"^  [A-Z]\n.*?(?=^   :\S|\Z)", re.MULTILINE | re.DOTALL)


def jargon(cache: Path) -> str:
    """The Jargon File as its package installs it, or unpacked below `cache`."""
    for root in (Path("/"), cache):
        if (root / FILE).exists():
            return _read(root / FILE)
    _unpack(cache)
    return _read(cache / FILE)


def entries(text: str) -> list[str]:
    """The lexicon's entries, one line a paragraph."""
    _before, *found = _ENTRY.split(_HEADWORDS.sub("", text))
    return [_unwrap(entry) for entry in found]


def blocks(
    texts: list[str], encode: Callable[[str], list[int]], end: int, length: int
) -> list[list[int]]:
    """All texts as tokens, `end` after each, cut to blocks of `length`; the rest is dropped."""
    tokens = [token for text in texts for token in (*encode(text), end)]
    return [tokens[at : at + length] for at in range(0, len(tokens) - length + 1, length)]


def split(
    blocks: list[list[int]], train: int, held_out: int, seed: int
) -> tuple[list[list[int]], list[list[int]]]:
    """Blocks to train on and others to judge by, the same ones for the same seed."""
    if len(blocks) < train + held_out:
        raise DemoError(
            f"the text has {len(blocks)} blocks, but {train} steps and {held_out} held-out blocks "
            "were asked for: ask for fewer steps"
        )
    chosen = random.Random(seed).sample(blocks, held_out + train)
    return chosen[held_out:], chosen[:held_out]


def _read(path: Path) -> str:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read()


def _unwrap(entry: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in entry.split("\n\n")).strip()


def _unpack(cache: Path) -> None:
    # Slim system images install packages without their /usr/share/doc, where the text lives, and
    # not everyone may install packages: fetching and unpacking one needs no such right.
    partial = cache.with_name(cache.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _run(["apt-get", "download", PACKAGE], partial)
        _run(["dpkg-deb", "--extract", *(deb.name for deb in partial.glob("*.deb")), "."], partial)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or str(error)
        raise DemoError(
            f"no /{FILE}, and the Debian package {PACKAGE} could not be fetched: {reason.strip()}; "
            f"install it: apt-get install {PACKAGE}"
        ) from error
    shutil.rmtree(cache, ignore_errors=True)
    partial.rename(cache)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
