"""The scope form."""

from types import TracebackType

from remat import _C
from remat._modules import Modules, ModuleWatch, paths_of, watch_for
from remat._open import settle, thread
from remat.policies import PolicyLike, as_policy


def as_segments(segments: int | None) -> int:
    """The number for the library, where 0 lets it choose. ValueError if it is not positive."""
    if segments is None:
        return 0
    if segments < 1:
        raise ValueError(f"remat: segments must be at least 1, not {segments}")
    return segments


class region:  # noqa: N801  (used like a function, as torch.no_grad is)
    """While it is open, what autograd saves on this thread is recomputed, not kept::

        with remat.region() as r:
            loss = model(x).sum()
        print(r.tape())

    Regions nest. Where grad mode is off, in inference mode and inside torch.func transforms a
    region records nothing and costs nothing.

    Args:
        policy: what to keep: one of :mod:`remat.policies`, its text ("dots_saveable |
            names(attn_out)"), a function of a value's facts, or None for "nothing_saveable".
        segments: in how many segments backward recomputes the region. 1 holds the whole region's
            values at once, as plain backward does; k segments hold one segment and the boundaries
            of the others, for up to one more forward pass. None: 1 for a region the size of a layer
            (up to 512 operators), sqrt(operators) for a larger one.
        module: the model that runs inside, for policies by module: paths start at it.
        verify: compare every element of what backward recomputes, see :func:`remat.verify`.

    Raises:
        ValueError: for a policy that is not there, with the column; on leaving, if the policy asks
            for modules and the region was given none.
        RuntimeError: on leaving, if regions are not closed in the reverse order of opening, or
            recording failed (everything was kept from there on; gradients stay right).
    """

    def __init__(
        self,
        policy: PolicyLike = None,
        segments: int | None = None,
        module: Modules | None = None,
        verify: bool = False,
    ) -> None:
        self._verifies = verify
        self._policy = as_policy(policy)
        self._segments = as_segments(segments)
        self._module = module
        self._region: _C.Region | None = None
        self._watch: ModuleWatch | None = None
        self._outer = 0

    def __enter__(self) -> "region":
        if self._region is not None:
            raise RuntimeError(
                "remat: a region object is entered once; make a new one with remat.region()"
            )
        settle()
        self._outer = len(thread.opened)
        self._region = _C.Region(self._policy, self._segments, self._verifies)
        if self._module is not None and self._policy is not None and self._policy.wants_module:
            self._watch = watch_for(self._region, paths_of(self._module))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._watch is not None:
            self._watch.close()
        try:
            settle(self._outer)
            self._opened().close()
        except Exception:
            # Unless the user's own error says more.
            if error is None or isinstance(error, GeneratorExit):
                raise

    def tape(self) -> str:
        """What was recorded, a line an operator; once it is left, what backward may need of it."""
        return self._opened().text()

    def dot(self) -> str:
        """The recorded dataflow for Graphviz."""
        return self._opened().dot()

    def json(self) -> str:
        """The tape for programs, in the format that docs/tape.md describes."""
        return self._opened().json()

    def held_bytes(self) -> int:
        """Bytes held because of this region: inputs, kept values, and what replays made."""
        return self._opened().held_bytes()

    def tape_bytes(self) -> int:
        """Bytes that the tape itself takes."""
        return self._opened().tape_bytes()

    def _opened(self) -> _C.Region:
        if self._region is None:
            raise RuntimeError("remat: this region was never entered; use it in a with statement")
        return self._region
