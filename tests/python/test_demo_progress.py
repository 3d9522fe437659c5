"""The demo's progress: one changing line on a terminal, plain lines in a log."""

import io
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "demo"))

from progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(stream):
    progress = Progress(stream)
    progress.note("step 1 of none")
    progress.milestone("step 1 of all")
    progress.say("done")
    return stream.getvalue()


def test_log_has_milestones_and_no_control_characters():
    assert show(io.StringIO()) == "step 1 of all\ndone\n"


def test_terminal_shows_everything_on_one_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    wipe = "\r\x1b[K"
    assert show(Terminal()) == f"{wipe}step 1 of none{wipe}step 1 of all{wipe}done\n"


def test_line_is_cut_to_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "6")
    terminal = Terminal()
    Progress(terminal).note("step 1 of none")
    assert terminal.getvalue() == "\r\x1b[Kstep "


def test_dumb_terminal_gets_plain_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert show(Terminal()) == "step 1 of all\ndone\n"
