"""Hugging Face's models, checkpointed by their own switch, as without it to the bit.

    python hf_strict.py                # remat, the 28 architectures that most people fine-tune
    python hf_strict.py torch --all    # torch's own checkpoint, and all other architectures

Loss, logits, every parameter's gradient over two accumulated steps with dropout, the buffers, and
the random state afterwards; and all of it again with the switch turned off.
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
from opinfo_sweep import operators_replayed  # noqa: E402


def two_steps(model, batches):
    """What two accumulated training steps give, by name."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    outputs = []
    for batch in batches:
        output = model(**batch)
        output = output.logits if hasattr(output, "logits") else output[0]
        output.float().pow(2).mean().backward()
        outputs.append(output.detach().clone())
    return {
        "logits": outputs,
        "gradient": {name: weight.grad for name, weight in model.named_parameters()},
        "buffer": {name: buffer.clone() for name, buffer in model.named_buffers()},
        "random state": torch.get_rng_state(),
    }


def compare(row, head, architecture):
    import tiny_models

    try:
        model = tiny_models.model(architecture, head)
        batches = [tiny_models.inputs(model.config, head, seed) for seed in (1, 2)]
        start = copy.deepcopy(model.state_dict())
        expected = copy.deepcopy(two_steps(model, batches))
    except Exception as error:
        return row.skip(head, f"{type(error).__name__}: {str(error)[:80]}")

    def again():
        model.load_state_dict(start)
        return two_steps(model, batches)

    if differences(again(), expected):
        return row.skip(head, "plain does not repeat its bits")
    replayed = operators_replayed()
    model.activation_checkpointing_enable()
    try:
        misses = differences(again(), expected)
    except Exception as error:
        misses = [f"{type(error).__name__}: {str(error)[:400]}"]
    row.judge(head, misses, operators_replayed() > replayed)
    model.activation_checkpointing_disable()
    row.judge(f"{head}, off again", differences(again(), expected), False)
    return None


def work(options):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    # Before transformers is imported, which takes the function by name.
    torch_checkpoint.checkpoint = find(options.implementation)

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
