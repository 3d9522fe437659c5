"""Progress: one line that changes on a terminal, plain lines everywhere else."""

import os
import shutil
import sys
from typing import TextIO


class Progress:
    """Shows where the demo is."""

    def __init__(self, stream: TextIO = sys.stdout):
        self._stream = stream
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"

    def note(self, line: str) -> None:
        """Passing news: replaces the line before on a terminal, is left out elsewhere."""
        if self._live:
            # A line that wraps cannot be wiped: "\r" returns to its last row only.
            width = shutil.get_terminal_size().columns - 1
            self._write("\r\x1b[K" + line[:width])

    def milestone(self, line: str) -> None:
        """News that a log should keep: like a note on a terminal, a line elsewhere."""
        if self._live:
            self.note(line)
        else:
            self._write(line + "\n")

    def say(self, line: str) -> None:
        """A line that stays, everywhere."""
        self.clear()
        self._write(line + "\n")

    def clear(self) -> None:
        """Wipes a passing line."""
        if self._live:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()  # a log is read while it grows
