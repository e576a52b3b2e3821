"""Blocking work on volumes: one job at a time for each pod or volume, in the threads of ``base.blocking``.

The caller of a job that hangs gets an error after the deadline; the next job of the same owner waits for the hung one,
so that two jobs never work on the same files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pykubelet.base import blocking
from pykubelet.base.units import Seconds

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Blocking:
    """Runs blocking jobs, one at a time for each owner (``pod/<uid>/volumes``, ``volume/<name>``)."""

    deadline: Seconds

    async def run(self, owner: str, job: Callable[[], _T]) -> _T:
        """Run a job; return its result. Raises its error, or Transient if it has not ended by the deadline.

        A job that has timed out continues in its thread; its result is lost.
        """
        return await blocking.call(owner, job, deadline=self.deadline, at_once=1)
