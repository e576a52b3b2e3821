"""Blocking work on volumes: one job at a time for each pod or volume, in the threads of ``base.blocking``.

A job that hangs is given up after the deadline; the next job under the same owner waits for it, so that two never work
in the same place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pykubelet.base import blocking
from pykubelet.base.units import Seconds

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Blocking:
    """Jobs by owner (``pod/<uid>/volumes``, ``volume/<name>``), one at a time for each."""

    deadline: Seconds

    async def run(self, owner: str, job: Callable[[], _T]) -> _T:
        """The job's result or error. Transient when it, or the one before it, has not ended by the deadline.

        A job that was given up goes on in its thread; its outcome is lost.
        """
        return await blocking.call(owner, job, deadline=self.deadline, at_once=1)
