"""The input: rows of a JSONL file, each with the line it comes from."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from remat.prepare._errors import DataError

# The keys of a row, by format. Others may be there and are ignored.
FORMATS = {
    "text": {"text"},
    "prompt-completion": {"prompt", "completion"},
    "messages": {"messages"},
}


@dataclass(frozen=True)
class Row:
    place: str  # "train.jsonl:118", which errors name
    format: str
    fields: dict


def read_rows(path: Path) -> Iterator[Row]:
    """Every row of a .jsonl file, all of one format."""
    format_of_first = None
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        row = Row(place, *_parse(line, place))
        format_of_first = format_of_first or row.format
        if row.format != format_of_first:
            raise DataError(
                f"{place}: is a row of {row.format}, but the rows before are of "
                f"{format_of_first}; put them into files of their own"
            )
        yield row


def read_text(path: Path) -> str:
    return "".join(_lines(path))


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for number, line in enumerate(_decoded(file, path), start=1):
                if "\0" in line:
                    raise DataError(f"{path}:{number}: has a zero byte; is it a text file?")
                yield line
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _decoded(file, path: Path) -> Iterator[str]:
    number = 0
    try:
        for line in file:
            number += 1
            yield line
    except UnicodeDecodeError as error:
        # The decoder reads ahead, so the line is found again in the bytes.
        raise DataError(f"{path}:{_bad_line(path)}: is not UTF-8: {error.reason}") from error


def _bad_line(path: Path) -> int:
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError:
            return number
    return 0


def _parse(line: str, place: str) -> tuple[str, dict]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{place}:{error.colno}: {error.msg}\n{_pointed(line, error)}") from error
    if not isinstance(fields, dict):
        raise DataError(f"{place}: must be a JSON object, is {type(fields).__name__}")
    for name, keys in FORMATS.items():
        if keys <= fields.keys():
            return name, fields
    wanted = "; ".join(", ".join(sorted(keys)) for keys in FORMATS.values())
    keys = ", ".join(sorted(fields)) or "none"
    raise DataError(f"{place}: its keys ({keys}) match no format; a row has one of: {wanted}")


def _pointed(line: str, error: json.JSONDecodeError) -> str:
    """The part of the line around the error, and a mark under it."""
    start = max(0, error.pos - 40)
    shown = line[start : error.pos + 40].rstrip("\r\n")
    return f"  {shown}\n  {' ' * (error.pos - start)}^"
