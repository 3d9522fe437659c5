"""Files of tokens, the format of docs/data.md."""

import hashlib
import os
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from remat.prepare._encode import Encoded
from remat.prepare._errors import DataError


def write_tokens(path: Path, rows: list[Encoded], metadata: dict[str, str]) -> None:
    lengths = [len(row.tokens) for row in rows]
    tensors = {
        "tokens": np.concatenate([np.asarray(row.tokens, dtype=np.int32) for row in rows]),
        "mask": np.concatenate([np.asarray(row.mask, dtype=np.uint8) for row in rows]),
        "offsets": np.cumsum([0, *lengths], dtype=np.int64),
    }
    _replace(path, save(tensors, metadata={"kind": "remat.tokens", "version": "1", **metadata}))


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(path: Path, content: bytes) -> None:
    """Writes beside, syncs, renames: a crash leaves the old file or the new one."""
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
