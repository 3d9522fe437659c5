"""Every differentiable operator that PyTorch's own OpInfo database knows, as plain to the bit.

    python opinfo_sweep.py                                   # remat, all five dtypes
    python opinfo_sweep.py torch --dtype float32 --samples 12
    python opinfo_sweep.py --only rrelu

An operator is called on the database's sample inputs three ways: as the last of a checkpointed
function, with an operator behind it so that what it returns is dropped, and in place. The first
sample is also differentiated twice. Outputs, gradients, requires_grad, the random state after
forward and after backward, and the arguments have to be those of the same call without checkpoint.
Behind forward it may hold no more bytes than that, nor 1.05 times those of torch's checkpoint.
"""

import argparse
import collections
import functools
import itertools
import pathlib
import re
import sys
import time
import typing
import warnings

import torch
import torch.testing._internal.common_methods_invocations as database
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "peers")]

import sweep as sweeping  # noqa: E402
from bits import differences  # noqa: E402
from implementations import call_plainly, find  # noqa: E402
from live import forget_imports, held_by, too_much  # noqa: E402

DTYPES = ("float32", "float64", "bfloat16", "float16", "complex64")
MOST_ELEMENTS = 200_000  # larger samples take minutes and ask nothing new
MOST_TRIED = 12  # samples an operator, usable or not
MOST_TWICE = 400  # elements to differentiate twice by
SECONDS = 4  # an operator
UNSTEADY = "linalg.lstsq"  # plain gives other bits in one call of ten


class NotDifferentiableError(Exception):
    """The call has no result that requires grad."""


def operators():
    """The entries of the database by a name of their own."""
    seen = collections.Counter()
    named = {}
    for op in database.op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        seen[name] += 1
        named[name + (f"#{seen[name]}" if seen[name] > 1 else "")] = op
    return named


def let_random_operators_draw():
    """The database reseeds before each random operator, which would hide what a checkpoint does to
    the random state."""

    def call(op, *args, **kwargs):
        return op(*args, **kwargs)

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = call


def is_inexact(value):
    return torch.is_tensor(value) and (value.is_floating_point() or value.is_complex())


class Run(typing.NamedTuple):
    results: dict  # what a call gives, by name
    calls: int  # of the checkpointed function
    held: int  # bytes behind forward


class Case:
    """A call of an operator on one sample."""

    def __init__(self, op, sample, place="last", order=1):
        self.call = op.inplace_variant if place == "in place" else op
        self.behind = place == "inside"
        self.order = order
        self.leaves, self.spec = tree_flatten((sample.input, sample.args, dict(sample.kwargs)))
        self.inputs = [
            i
            for i, leaf in enumerate(self.leaves)
            if is_inexact(leaf) and leaf.requires_grad and leaf.is_leaf
        ]

    def elements(self):
        return sum(leaf.numel() for leaf in self.leaves if torch.is_tensor(leaf))

    def run(self, checkpoint, before):
        inputs = [self.leaves[i].detach().clone().requires_grad_() for i in self.inputs]
        calls = []

        def function(*tensors):
            calls.append(None)
            leaves = list(self.leaves)
            for i, tensor in zip(self.inputs, tensors, strict=True):
                leaves[i] = before(tensor)
            first, args, kwargs = tree_unflatten(leaves, self.spec)
            result = self.call(first, *args, **kwargs)
            return tree_map(square, result) if self.behind else result

        torch.manual_seed(5)
        outputs, held = held_by(lambda: checkpoint(function, *inputs))
        outputs = tree_flatten(outputs)[0]
        result = {"random state after forward": torch.get_rng_state()}
        outputs = [output for output in outputs if torch.is_tensor(output)]
        result["requires_grad"] = [output.requires_grad for output in outputs]
        result |= self.gradients(outputs, inputs)
        result["output"] = [output.detach() for output in outputs]
        result["random state after backward"] = torch.get_rng_state()
        result["argument"] = [tensor.detach() for tensor in inputs]
        result["stray .grad"] = [tensor.grad for tensor in inputs]
        return Run(result, len(calls), held)

    def gradients(self, outputs, inputs):
        roots = [output for output in outputs if output.requires_grad and is_inexact(output)]
        if not roots:
            raise NotDifferentiableError("no differentiable output")
        generator = torch.Generator().manual_seed(9)
        weights = [torch.randn(root.shape, generator=generator, dtype=root.dtype) for root in roots]
        twice = self.order == 2
        first = torch.autograd.grad(roots, inputs, weights, allow_unused=True, create_graph=twice)
        result = {"gradient": [None if grad is None else grad.detach() for grad in first]}
        roots = [grad for grad in first if grad is not None and grad.requires_grad]
        if twice and roots:
            energy = [(grad * grad.conj()).real.sum() for grad in roots]
            second = torch.autograd.grad(energy, inputs, allow_unused=True)
            result["second gradient"] = list(second)
        return result


def square(value):
    """An operator that saves its argument."""
    return value * value if is_inexact(value) and value.requires_grad else value


BEFORE = (lambda tensor: (tensor * 1).sin(), lambda tensor: tensor * 1)
"""What makes the operator's arguments inside the region; the second where a domain excludes sin."""


def cases(op, dtype, count):
    """The cases of up to `count` samples, with names."""
    made = 0
    samples = op.sample_inputs("cpu", dtype, requires_grad=True)
    for number, sample in enumerate(itertools.islice(samples, MOST_TRIED)):
        usable = Case(op, sample)
        if made == count or not usable.inputs or usable.elements() > MOST_ELEMENTS:
            continue
        yield f"sample {number} last", usable
        yield f"sample {number} inside", Case(op, sample, "inside")
        if made == 0 and op.inplace_variant is not None:
            yield f"sample {number} in place", Case(op, sample, "in place")
        if made == 0 and op.supports_gradgrad and usable.elements() <= MOST_TWICE:
            yield f"sample {number} twice", Case(op, sample, "last", order=2)
            yield f"sample {number} inside twice", Case(op, sample, "inside", order=2)
        made += 1


def dirty_free_memory(case):
    """So that a buffer that was saved and never filled does not happen to hold the right bytes."""
    for leaf in filter(is_inexact, case.leaves):
        dirt = [torch.full((leaf.numel(),), 77, dtype=leaf.dtype) for _ in range(12)]
        del dirt


def run_plainly(case):
    """The run, and how the arguments are made; raises what plain raises."""
    for before in BEFORE:
        try:
            return case.run(call_plainly, before), before
        except NotDifferentiableError:
            raise
        except Exception as error:
            refused = error
    raise refused


def compare(row, name, case, checkpoint):
    try:
        expected, before = run_plainly(case)
    except Exception as error:
        return row.skip(name, f"plain raises {type(error).__name__}: {str(error)[:80]}")
    if not repeats(case, before, expected.results, times=1):
        return row.skip(name, "plain does not repeat its bits")
    dirty_free_memory(case)
    replayed = operators_replayed()
    try:
        got = case.run(checkpoint, before)
        misses = differences(got.results, expected.results)
    except Exception as error:
        misses, got = [f"{type(error).__name__}: {str(error)[:400]}"], Run({}, 0, 0)
    if misses and not repeats(case, before, expected.results, times=30):
        return row.skip(name, "plain does not repeat its bits")
    recomputed = got.calls > 1 or operators_replayed() > replayed
    heavy = too_much(got.held, expected.held, held_by_torch(case, before, expected))
    row.judge(name, misses, recomputed, heavy)
    return None


def held_by_torch(case, before, expected):
    """Bytes behind forward with torch's checkpoint; None where that is not as plain."""
    try:
        got = case.run(find("torch"), before)
    except Exception:
        return None
    return None if differences(got.results, expected.results) else got.held


def repeats(case, before, expected, times):
    """Whether plain gives the same again: some LAPACK results depend on where memory lies."""
    for _ in range(times):
        dirty_free_memory(case)
        if differences(case.run(call_plainly, before).results, expected):
            return False
    return True


def operators_replayed():
    remat = sys.modules.get("remat")
    return remat.stats()["ops_replayed"] if remat else 0


def sweep_operator(name, op, checkpoint, dtype, samples):
    row = sweeping.Row(name)
    if not op.supports_autograd or dtype not in op.supported_backward_dtypes("cpu"):
        row.skip("all", "no autograd for this dtype on the CPU")
        return row
    if name.startswith(UNSTEADY):
        row.skip("all", "plain does not repeat its bits")
        return row
    torch.manual_seed(1)
    start = time.monotonic()
    try:
        for case_name, case in cases(op, dtype, samples):
            if time.monotonic() - start > SECONDS:
                break
            compare(row, case_name, case, checkpoint)
    except Exception as error:
        row.skip("sampling", f"{type(error).__name__}: {str(error)[:100]}")
    return row


def work(options):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    let_random_operators_draw()
    checkpoint = find(options.implementation)
    named = operators()
    dtype = getattr(torch, options.dtype[0])
    forget_imports()
    sweeping.work(
        lambda name: sweep_operator(name, named[name], checkpoint, dtype, options.samples)
    )


@functools.cache
def names(only=""):
    return [name for name in operators() if re.search(only, name)]


def sweep(implementation, dtype, samples=3, only="", jobs=2):
    """The rows of all operators whose name has the pattern `only` in it."""
    command = [sys.executable, __file__, implementation, "--worker", "--dtype", dtype]
    return sweeping.drive([*command, "--samples", str(samples)], names(only), jobs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("implementation", nargs="?", default="remat")
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--samples", type=int, default=6, help="an operator (6)")
    parser.add_argument("--only", default="", help="a pattern in the operator's name")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options)
    failed = 0
    for dtype in options.dtype:
        arguments = (options.implementation, dtype, options.samples, options.only, options.jobs)
        title = f"{options.implementation}, {dtype}"
        failed += sweeping.report(title, lambda arguments=arguments: sweep(*arguments))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
