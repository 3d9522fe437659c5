"""What a run measured: its steps, and the numbers drawn from them."""

from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Step:
    """One step of training: forward, backward and AdamW.

    Bytes count the CPU tensors alive beyond those that were alive before the step. Parameters,
    gradients (zeroed in place, never freed) and AdamW's state live all the time, so they are not
    in it: what remains is what the forward keeps for backward, and temporaries.
    """

    loss: float
    seconds: float
    peak_bytes: int  # highest between the start of forward and the end of backward
    after_forward_bytes: int  # at the end of forward, of which only the loss is held


@dataclass
class Result:
    """One run of the demo."""

    name: str
    tokens: int  # per step
    program: str = "transformers + peft"  # who trains: runs of one program agree bit for bit
    held_out_before: float = 0.0
    held_out_after: float = 0.0
    ops_replayed: int = 0  # over all steps
    adapter_sha256: str = ""  # of the trained LoRA weights
    steps: list[Step] = field(default_factory=list)

    @property
    def losses(self) -> list[float]:
        return [step.loss for step in self.steps]

    @property
    def first_loss(self) -> float:
        return self.losses[0]

    @property
    def last_loss(self) -> float:
        return self.losses[-1]

    @property
    def activation_peak_bytes(self) -> int:
        return max(step.peak_bytes for step in self.steps)

    @property
    def after_forward_bytes(self) -> int:
        return max(step.after_forward_bytes for step in self.steps)

    @property
    def step_seconds(self) -> float:
        # The median: the first steps also fault the weights in, and machines have other work.
        return median(step.seconds for step in self.steps)

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.step_seconds


def by_program(results: list[Result]) -> dict[str, list[Result]]:
    """The runs of each program, which may sum and draw in another order than other programs."""
    programs = {result.program: [] for result in results}
    for result in results:
        programs[result.program].append(result)
    return programs


def differences(results: list[Result]) -> list[str]:
    """Every number of training that is not, bit for bit, that of its program's first run."""
    return [
        line
        for reference, *others in by_program(results).values()
        for other in others
        for line in _differences_of(other, reference)
    ]


def _differences_of(run: Result, reference: Result) -> list[str]:
    pairs = [
        (f"the loss of step {at + 1}", ours, theirs)
        for at, (ours, theirs) in enumerate(zip(run.losses, reference.losses, strict=True))
    ]
    pairs += [
        ("the held-out loss before", run.held_out_before, reference.held_out_before),
        ("the held-out loss after", run.held_out_after, reference.held_out_after),
        ("the trained adapter", run.adapter_sha256, reference.adapter_sha256),
    ]
    # repr, not ==: it tells every two floats apart, and a NaN is not different from itself.
    return [
        f"{what} is {ours!r} in run '{run.name}', but {theirs!r} in run '{reference.name}'"
        for what, ours, theirs in pairs
        if repr(ours) != repr(theirs)
    ]
