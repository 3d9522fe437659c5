"""Hugging Face's models, checkpointed by their own switch, as without it to the bit.

    python hf_strict.py                # remat, the 28 architectures that most people fine-tune
    python hf_strict.py torch --all    # torch's own checkpoint, and all other architectures

Loss, logits, every parameter's gradient over two accumulated steps with dropout, the buffers, and
the random state afterwards; and all of it again with the switch turned off. And the bytes behind a
forward pass: at most those without the switch, and 1.05 times those of torch's checkpoint.
"""

import argparse
import copy
import os
import pathlib
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch
import torch.utils.checkpoint as torch_checkpoint

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "peers")]

import sweep as sweeping  # noqa: E402
from bits import differences  # noqa: E402
from implementations import find  # noqa: E402
from live import forget_imports, held_by, too_much  # noqa: E402
from opinfo_sweep import operators_replayed  # noqa: E402


class Switch:
    """What models call, which take the function once and by name."""

    checkpoint = None
    torchs = find("torch")

    def __call__(self, *args, **kwargs):
        return Switch.checkpoint(*args, **kwargs)


def two_steps(model, batches):
    """What two accumulated training steps give, by name; and the bytes behind the first forward."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    outputs, held = [], []
    for batch in batches:
        output, bytes_held = held_by(lambda batch=batch: model(**batch))
        held.append(bytes_held)
        output = output.logits if hasattr(output, "logits") else output[0]
        output.float().pow(2).mean().backward()
        outputs.append(output.detach().clone())
    results = {
        "logits": outputs,
        "gradient": {name: weight.grad for name, weight in model.named_parameters()},
        "buffer": {name: buffer.clone() for name, buffer in model.named_buffers()},
        "random state": torch.get_rng_state(),
    }
    return results, held[0]


def compare(row, head, architecture):
    import tiny_models

    try:
        model = tiny_models.model(architecture, head)
        batches = [tiny_models.inputs(model.config, head, seed) for seed in (1, 2)]
        start = copy.deepcopy(model.state_dict())
        expected, plain = copy.deepcopy(two_steps(model, batches))
    except Exception as error:
        return row.skip(head, f"{type(error).__name__}: {str(error)[:80]}")

    def again():
        model.load_state_dict(start)
        return two_steps(model, batches)

    if differences(again()[0], expected):
        return row.skip(head, "plain does not repeat its bits")
    replayed = operators_replayed()
    model.activation_checkpointing_enable()
    try:
        got, held = again()
        misses = differences(got, expected)
    except Exception as error:
        misses, held = [f"{type(error).__name__}: {str(error)[:400]}"], 0
    recomputed = operators_replayed() > replayed
    row.judge(head, misses, recomputed, too_much(held, plain, held_by_torch(again, expected)))
    model.activation_checkpointing_disable()
    row.judge(f"{head}, off again", differences(again()[0], expected), False)
    return None


def held_by_torch(again, expected):
    """Bytes behind forward with torch's checkpoint; None where that is not as plain."""
    own = Switch.checkpoint
    Switch.checkpoint = Switch.torchs
    try:
        got, held = again()
        return None if differences(got, expected) else held
    except Exception:
        return None
    finally:
        Switch.checkpoint = own


def work(options):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    Switch.checkpoint = find(options.implementation)
    # Before transformers is imported, which takes the function by name.
    torch_checkpoint.checkpoint = Switch()
    import tiny_models  # noqa: F401

    forget_imports()

    def run(name):
        head, architecture = name.split("/")
        row = sweeping.Row(name)
        compare(row, head, architecture)
        return row

    sweeping.work(run)


def sweep(implementation, names, jobs=2):
    """The rows of `head/architecture` names."""
    command = [sys.executable, __file__, implementation, "--worker"]
    return sweeping.drive(command, names, jobs)


def names(every):
    import tiny_models

    pairs = tiny_models.picked() + (tiny_models.others() if every else [])
    return [f"{head}/{architecture}" for head, architecture in pairs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat")
    parser.add_argument("--all", action="store_true", help="every architecture, not 28")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    failed = sweeping.report(
        options.implementation,
        lambda: sweep(options.implementation, names(options.all), options.jobs),
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
