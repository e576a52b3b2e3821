"""Life cycles that run from their transition tables: the table of a kind of object, and the life of one object. Pure.

The rows of a table are also the source of the diagrams in ARCHITECTURE.md (``tools/gen_diagrams.py``).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

from pykubelet.base.errors import Permanent
from pykubelet.base.units import Seconds

_P = TypeVar("_P", bound=StrEnum)
_REMEMBERED = 8
"""Number of phases in the history of one object."""


class LifeCycle(Generic[_P]):
    """The life cycle of a kind of object: the table of its possible transitions."""

    def __init__(self, kind: str, transitions: tuple[tuple[_P, str, _P], ...]) -> None:
        """``kind``: the noun in error messages; ``transitions``: from a phase, for a reason, to a phase."""
        self.kind = kind
        self.transitions = transitions
        following = {before: frozenset[_P]() for before, _, _ in transitions}
        for before, _, to in transitions:
            following[before] |= {to}
        self._following = following

    def following(self, phase: _P) -> frozenset[_P]:
        """The phases that can follow this one directly; it is among them if it can be entered again."""
        return self._following.get(phase, frozenset())


class Life(Generic[_P]):
    """The phase of one object, and its last phases with their ages."""

    def __init__(self, cycle: LifeCycle[_P], identity: str, *, phase: _P, monotonic: Callable[[], Seconds]) -> None:
        """``phase``: the one in which the object is found or created now; ``monotonic``: the clock for the ages."""
        self._cycle = cycle
        self._identity = identity
        self._monotonic = monotonic
        self._phases: tuple[tuple[_P, Seconds], ...] = ((phase, monotonic()),)  # a deque would take 600 bytes more

    @property
    def phase(self) -> _P:
        """The current phase."""
        return self._phases[-1][0]

    def check(self, to: _P) -> None:
        """Check that the table has a transition to this phase. Permanent, with the history: it has none."""
        if to not in self._cycle.following(self.phase):
            raise Permanent(
                f"{self._cycle.kind} {self._identity} is {self.phase.value}, it cannot become {to.value} "
                f"(history: {self.history()})"
            )

    def enter(self, to: _P) -> None:
        """Make the transition to this phase. Permanent, as of ``check``: it is impossible; nothing was changed."""
        self.check(to)
        self._phases = (*self._phases[1 - _REMEMBERED :], (to, self._monotonic()))

    def history(self) -> str:
        """The last phases, oldest first, and how long ago each was entered: ``created 3.1 s ago, running 2.9 s ago``.

        An object of an earlier process was found in its first phase then, whenever it entered that.
        """
        now = self._monotonic()
        return ", ".join(f"{phase.value} {now - since:.1f} s ago" for phase, since in self._phases)
