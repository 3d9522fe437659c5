"""The command line: python -m remat.prepare."""

import argparse
import os
import sys
from pathlib import Path

from remat.prepare._errors import PrepareError

EXIT_CODES = (
    "exit codes: 0 done, 1 internal error, 2 usage, 3 data, 6 model or its files, 130 interrupted"
)


def main(words: list[str] | None = None) -> int:
    arguments = parser().parse_args(words)
    # Progress bars of the libraries would stand between our lines.
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        arguments.run(arguments)
    except PrepareError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    return 0


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="python -m remat.prepare",
        description="Makes what `remat train` reads: model folders and files of tokens.",
        epilog=EXIT_CODES,
    )
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    _add_model(commands)
    _add_data(commands)
    return whole


def _add_model(commands) -> None:
    command = commands.add_parser(
        "model", help="a GGUF file or a Hugging Face model to a folder", epilog=EXIT_CODES
    )
    command.add_argument("source", help="a .gguf file, a model folder, or a name on the Hub")
    command.add_argument("output", type=Path, help="the folder to write; must not exist")
    command.add_argument(
        "--dtype", choices=["bf16", "f32"], default="bf16", help="of the weights (bf16)"
    )
    command.set_defaults(run=_run_model)


def _add_data(commands) -> None:
    command = commands.add_parser(
        "data", help="text or JSONL to a file of tokens", epilog=EXIT_CODES
    )
    command.add_argument(
        "input",
        type=Path,
        help=".txt: one text; .jsonl: rows with text, prompt and completion, or messages",
    )
    command.add_argument("--model", type=Path, required=True, help="the model's folder")
    command.add_argument(
        "--output",
        type=Path,
        required=True,
        help="the .safetensors file to write; with --val-size a folder",
    )
    command.add_argument(
        "--max-length", type=_positive, default=1024, help="tokens a row; longer are cut (1024)"
    )
    command.add_argument(
        "--completion-only-loss",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="train on completions and assistant turns alone, where the rows have prompts (on)",
    )
    command.add_argument(
        "--assistant-turns",
        choices=["all", "last"],
        default="all",
        help="which of a conversation's assistant turns are trained on (all)",
    )
    command.add_argument(
        "--drop-untrainable",
        action="store_true",
        help="leave out rows without a token to train on instead of stopping",
    )
    command.add_argument(
        "--val-size", type=_share, default=0.0, help="share of rows put aside for evaluation (0)"
    )
    command.add_argument("--seed", type=int, default=42, help="of the choice of --val-size (42)")
    command.set_defaults(run=_run_data)


def _run_model(arguments: argparse.Namespace) -> None:
    from remat.prepare._model import prepare_model

    prepare_model(arguments.source, arguments.output, arguments.dtype)


def _run_data(arguments: argparse.Namespace) -> None:
    from remat.prepare._data import prepare_data

    prepare_data(arguments)


def _positive(word: str) -> int:
    if (number := int(word)) < 2:
        raise argparse.ArgumentTypeError("a row needs at least 2 tokens: one to predict the other")
    return number


def _share(word: str) -> float:
    if not 0.0 <= (number := float(word)) < 1.0:
        raise argparse.ArgumentTypeError("must be from 0 to below 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
