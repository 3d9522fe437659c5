"""Text or JSONL to files of tokens."""

import argparse
import json
import random
from pathlib import Path

from remat.prepare._encode import Encoded, Encoder
from remat.prepare._errors import DataError, ModelError
from remat.prepare._source import read_rows, read_text
from remat.prepare._tokens import sha256, write_tokens


def prepare_data(arguments: argparse.Namespace) -> None:
    tokenizer = _load_tokenizer(arguments.model)
    vocabulary = _vocabulary_size(arguments.model)
    whole = _encode(arguments, tokenizer)
    rows = _trainable([row.cut(arguments.max_length) for row in whole], arguments)
    _check_tokens(rows, vocabulary, arguments.model)

    metadata = {
        "tokenizer_sha256": sha256(arguments.model / "tokenizer.json"),
        "vocab_size": str(vocabulary),
        "eos_token_id": str(tokenizer.eos_token_id),
        "source": arguments.input.name,
        "source_sha256": sha256(arguments.input),
        "max_length": str(arguments.max_length),
    }
    longer = sum(len(row.tokens) > arguments.max_length for row in whole)
    for path, part in _parts(rows, arguments):
        write_tokens(path, part, metadata)
        print(_summary(path, part))
    if longer:
        print(f"{longer} of {len(whole)} rows were longer than {arguments.max_length} tokens: cut")


def _load_tokenizer(folder: Path):
    from transformers import AutoTokenizer

    if not (folder / "tokenizer.json").is_file():
        raise ModelError(
            f"{folder}: has no tokenizer.json; make a model folder with: "
            "python -m remat.prepare model SOURCE OUT"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{folder}: transformers cannot read its tokenizer: {error}") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"{folder}: its tokenizer has no eos_token, which ends every text")
    return tokenizer


def _vocabulary_size(folder: Path) -> int:
    path = folder / "config.json"
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: cannot be read for vocab_size: {error}") from error


def _encode(arguments: argparse.Namespace, tokenizer) -> list[Encoded]:
    path = arguments.input
    encoder = Encoder(
        tokenizer, arguments.completion_only_loss, arguments.assistant_turns == "last"
    )
    if path.suffix == ".txt":
        rows = _blocks(encoder.text(read_text(path), str(path)), arguments.max_length)
    elif path.suffix in {".jsonl", ".json"}:
        rows = [encoder.row(row) for row in read_rows(path)]
    else:
        raise DataError(f"{path}: must end in .txt or .jsonl, which say how it is read")
    if not rows:
        raise DataError(f"{path}: has no rows: there is nothing to train on")
    return rows


def _blocks(text: Encoded, length: int) -> list[Encoded]:
    """One long text as rows of `length` tokens; the last may be shorter."""
    starts = range(0, len(text.tokens), length)
    blocks = [
        Encoded(text.place, text.tokens[at : at + length], text.mask[at : at + length])
        for at in starts
    ]
    return [block for block in blocks if block.trains]


def _trainable(rows: list[Encoded], arguments: argparse.Namespace) -> list[Encoded]:
    kept = [row for row in rows if row.trains]
    dropped = len(rows) - len(kept)
    if dropped and not (arguments.drop_untrainable and kept):
        first = next(row for row in rows if not row.trains)
        raise DataError(
            f"{first.place}: no token to train on within {arguments.max_length} tokens, and so in "
            f"{dropped} of {len(rows)} rows; raise --max-length, or leave them out with "
            "--drop-untrainable"
        )
    if dropped:
        print(f"{dropped} of {len(rows)} rows have no token to train on: left out")
    return kept


def _check_tokens(rows: list[Encoded], vocabulary: int, folder: Path) -> None:
    for row in rows:
        if max(row.tokens) >= vocabulary:
            raise ModelError(
                f"{folder}: its tokenizer gives token {max(row.tokens)} in {row.place}, but "
                f"config.json says vocab_size {vocabulary}; take both from the same model"
            )


def _parts(rows: list[Encoded], arguments: argparse.Namespace) -> list[tuple[Path, list]]:
    """The files to write, and the rows of each."""
    if not arguments.val_size:
        return [(arguments.output, rows)]
    count = max(1, round(len(rows) * arguments.val_size))
    if count >= len(rows):
        raise DataError(f"{arguments.input}: {len(rows)} rows are too few for --val-size")
    chosen = set(random.Random(arguments.seed).sample(range(len(rows)), count))
    train = [row for index, row in enumerate(rows) if index not in chosen]
    valid = [row for index, row in enumerate(rows) if index in chosen]
    folder = arguments.output
    return [(folder / "train.safetensors", train), (folder / "valid.safetensors", valid)]


def _summary(path: Path, rows: list[Encoded]) -> str:
    tokens = sum(len(row.tokens) for row in rows)
    trained = sum(sum(row.mask) for row in rows)
    longest = max(len(row.tokens) for row in rows)
    return (
        f"{path}: {len(rows):,} rows, {tokens:,} tokens, {trained / tokens:.0%} of them trained "
        f"on, longest {longest:,}"
    )
