"""The report: a table and sentences for people, JSON for programs."""

import json
import os
from pathlib import Path

from result import Result, by_program


def to_json(results: list[Result]) -> str:
    return json.dumps({"runs": [_facts(result) for result in results]}, indent=2) + "\n"


def write(path: Path, text: str) -> None:
    """Writes beside and renames: who reads meanwhile sees the old report or the new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def table(results: list[Result]) -> str:
    """One column a run."""
    by_name = {result.name: result for result in results}
    rows = [["", *(result.name for result in results)]]
    for label, attribute, show, references in _ROWS:
        rows.append([label, *(show(getattr(result, attribute)) for result in results)])
        for name in references:
            base = getattr(by_name[name], attribute)
            ratios = (f"{getattr(result, attribute) / base:.3f}" for result in results)
            rows.append([f"  / {name}", *ratios])
    return _aligned(rows)


def sentences(results: list[Result]) -> list[str]:
    """What the table says, of the runs that save memory; the first run of a program saves none."""
    return [
        _sentence(run, none) for none, *others in by_program(results).values() for run in others
    ]


def bytes_text(count: int) -> str:
    """1289.4 MiB: one unit everywhere, so that columns compare at a glance."""
    return f"{count / 2**20:,.1f} MiB"


def _sentence(run: Result, none: Result) -> str:
    return (
        f"{run.name}: {bytes_text(run.activation_peak_bytes)} of activations at the peak where "
        f"{none.name} needs {bytes_text(none.activation_peak_bytes)} "
        f"({run.activation_peak_bytes / none.activation_peak_bytes:.2f} x); a step takes "
        f"{run.step_seconds / none.step_seconds:.2f} x its time."
    )


def _loss_text(loss: float) -> str:
    return f"{loss:.6f}"


# label, attribute, its text, the runs it is compared with
_ROWS = (
    ("activation peak", "activation_peak_bytes", bytes_text, ("none", "torch")),
    ("held after forward", "after_forward_bytes", bytes_text, ("none", "torch")),
    ("seconds per step", "step_seconds", "{:.2f} s".format, ("none", "torch")),
    ("tokens per second", "tokens_per_second", "{:.1f}".format, ()),
    ("ops replayed", "ops_replayed", "{:,}".format, ()),
    ("loss, first step", "first_loss", _loss_text, ()),
    ("loss, last step", "last_loss", _loss_text, ()),
    ("held-out loss before", "held_out_before", _loss_text, ()),
    ("held-out loss after", "held_out_after", _loss_text, ()),
)


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def _facts(result: Result) -> dict:
    return {
        "name": result.name,
        "program": result.program,
        "losses": result.losses,
        "activation_peak_bytes": result.activation_peak_bytes,
        "after_forward_bytes": result.after_forward_bytes,
        "step_seconds": result.step_seconds,
        "tokens_per_second": result.tokens_per_second,
        "ops_replayed": result.ops_replayed,
        "held_out_before": result.held_out_before,
        "held_out_after": result.held_out_after,
        "adapter_sha256": result.adapter_sha256,
        "seconds": [step.seconds for step in result.steps],
    }
