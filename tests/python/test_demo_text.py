"""The demo's text: entries of the Jargon File, cut to blocks of tokens."""

import gzip
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "demo"))

import text
from errors import DemoError

JARGON = """\
   Table of Contents

   ack

  A

   ack

   adger

   :ack: /ak/, interj.

   [common] Used to register
   one's presence.

   :adger: /aj'r/, vt.

   To make a bonehead move.

  B

   back door

   :back door: n.

   A hole.
"""


def test_entries_are_the_definitions_unwrapped_without_lists_of_headwords():
    assert text.entries(JARGON) == [
        ":ack: /ak/, interj.\n\n[common] Used to register one's presence.",
        ":adger: /aj'r/, vt.\n\nTo make a bonehead move.",
        ":back door: n.\n\nA hole.",
    ]


def test_blocks_end_every_text_and_drop_the_rest():
    encode = {"a": [1, 2], "b": [3, 4, 5]}.__getitem__
    assert text.blocks(["a", "b"], encode, end=0, length=3) == [[1, 2, 0], [3, 4, 5]]


def test_split_is_disjoint_and_repeatable():
    blocks = [[at] for at in range(50)]
    train, held_out = text.split(blocks, train=20, held_out=4, seed=1)
    assert (len(train), len(held_out)) == (20, 4)
    assert len({block for (block,) in train + held_out}) == 24
    assert text.split(blocks, 20, 4, seed=1) == (train, held_out)


def test_split_keeps_the_held_out_blocks_when_there_are_more_steps():
    blocks = [[at] for at in range(50)]
    assert text.split(blocks, 5, 4, seed=1)[1] == text.split(blocks, 40, 4, seed=1)[1]


def test_split_of_too_short_a_text_says_so():
    with pytest.raises(DemoError, match="3 blocks, but 2 steps and 2 held-out"):
        text.split([[1], [2], [3]], train=2, held_out=2, seed=1)


def test_text_unpacked_before_is_read_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "FILE", Path("usr/share/doc/remat-no-such-package/text.gz"))
    path = tmp_path / text.FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress("naïve".encode()))
    assert text.jargon(tmp_path) == "naïve"


def test_package_that_cannot_be_fetched_is_named_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "FILE", Path("usr/share/doc/remat-no-such-package/text.gz"))
    monkeypatch.setattr(text, "PACKAGE", "remat-no-such-package")
    with pytest.raises(DemoError, match="apt-get install remat-no-such-package"):
        text.jargon(tmp_path)
