"""The settings that all runs share."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    model: Path
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    learning_rate: float = 5e-4
    seed: int = 20
    threads: int = 2
