"""Every module of PyTorch's own module database in training mode, as plain to the bit.

    python module_sweep.py            # remat
    python module_sweep.py torch --samples 8

Outputs, gradients of inputs and parameters, buffers (BatchNorm's running statistics) and the random
state have to be those of the module without a checkpoint; and the bytes behind forward at most
those, and 1.05 times those of torch's checkpoint.
"""

import argparse
import itertools
import pathlib
import sys
import warnings

import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten, tree_map

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "peers")]

import sweep as sweeping  # noqa: E402
from bits import differences  # noqa: E402
from implementations import call_plainly, find  # noqa: E402
from live import forget_imports, held_by, too_much  # noqa: E402
from opinfo_sweep import Run, is_inexact, operators_replayed, square  # noqa: E402

DTYPE = torch.float32


def fresh(value):
    """The tensor with a graph of its own."""
    if not torch.is_tensor(value):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)


def run(info, sample, checkpoint):
    """A training step of a new module."""
    torch.manual_seed(3)
    arguments = sample.constructor_input
    module = info.module_cls(*arguments.args, **arguments.kwargs).train()
    args, kwargs = tree_map(fresh, (sample.forward_input.args, sample.forward_input.kwargs))
    calls = []

    def function(*args, **kwargs):
        calls.append(None)
        return tree_map(square, module(*args, **kwargs))

    torch.manual_seed(4)
    outputs, held = held_by(lambda: checkpoint(function, *args, **kwargs))
    outputs = tree_flatten(outputs)[0]
    roots = [output for output in outputs if is_inexact(output) and output.requires_grad]
    if not roots:
        raise ValueError("no differentiable output")
    leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if is_inexact(leaf)]
    leaves = [leaf for leaf in [*leaves, *module.parameters()] if leaf.requires_grad]
    gradients = torch.autograd.grad(roots, leaves, list(map(weight, roots)), allow_unused=True)
    results = {
        "output": [root.detach() for root in roots],
        "gradient": list(gradients),
        "buffer": {name: buffer.clone() for name, buffer in module.named_buffers()},
        "random state": torch.get_rng_state(),
    }
    return Run(results, len(calls), held)


def weight(root):
    generator = torch.Generator().manual_seed(8)
    return torch.randn(root.shape, generator=generator, dtype=root.dtype)


def compare(row, name, info, sample, checkpoint):
    try:
        expected, again = (run(info, sample, call_plainly) for _ in range(2))
    except Exception as error:
        return row.skip(name, f"plain raises {type(error).__name__}: {str(error)[:80]}")
    if differences(again.results, expected.results):
        return row.skip(name, "plain does not repeat its bits")
    replayed = operators_replayed()
    try:
        got = run(info, sample, checkpoint)
        misses = differences(got.results, expected.results)
    except Exception as error:
        misses, got = [f"{type(error).__name__}: {str(error)[:400]}"], Run({}, 0, 0)
    recomputed = got.calls > 1 or operators_replayed() > replayed
    heavy = too_much(got.held, expected.held, held_by_torch(info, sample, expected))
    row.judge(name, misses, recomputed, heavy)
    return None


def held_by_torch(info, sample, expected):
    """Bytes behind forward with torch's checkpoint; None where that is not as plain."""
    try:
        got = run(info, sample, find("torch"))
    except Exception:
        return None
    return None if differences(got.results, expected.results) else got.held


def sweep_module(info, checkpoint, samples):
    row = sweeping.Row(info.name)
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=DTYPE, requires_grad=True, training=True
    )
    usable = (sample for sample in inputs if sample.forward_input is not None)
    for number, sample in enumerate(itertools.islice(usable, samples)):
        compare(row, f"sample {number}", info, sample, checkpoint)
    return row


def work(options):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    checkpoint = find(options.implementation)
    named = {info.name: info for info in module_db}
    forget_imports()
    sweeping.work(lambda name: sweep_module(named[name], checkpoint, options.samples))


def sweep(implementation, samples=4, jobs=2):
    """The rows of all modules."""
    command = [sys.executable, __file__, implementation, "--worker", "--samples", str(samples)]
    return sweeping.drive(command, [info.name for info in module_db], jobs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat")
    parser.add_argument("--samples", type=int, default=4, help="a module (4)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    arguments = (options.implementation, options.samples, options.jobs)
    return 1 if sweeping.report(options.implementation, lambda: sweep(*arguments)) else 0


if __name__ == "__main__":
    sys.exit(main())
