"""A figure is the median of many measurements, with the quartiles as its spread."""

from __future__ import annotations

import statistics

Figure = dict[str, float]


def figure_of(measurements: list[float]) -> Figure:
    low, median, high = statistics.quantiles(measurements, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def text_of(figure: Figure) -> str:
    return f"{figure['median']:9.2f}  [{figure['low']:.2f}, {figure['high']:.2f}]"


def row(name: str, *cells: str) -> str:
    return f"{name:<18}" + "".join(f"{cell:<31}" for cell in cells).rstrip()
