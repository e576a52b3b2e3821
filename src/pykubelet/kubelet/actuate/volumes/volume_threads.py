"""Blocking work on volumes: one job at a time for each pod or volume, in the threads of ``base.concurrency.blocking``.

The caller of a job that hangs gets an error after the deadline; the next job of the same owner waits for the hung one,
so that two jobs never work on the same files.

A volume with millions of files is given to the pod's fsGroup file by file. No deadline fits that: with one, a pod with
a large volume would never start. So ``SlowChanges`` tells by events that it takes long, and gives it up only when
nothing happens any more. Messages and times are those of the Go kubelet (``pkg/volume/volume_linux.go``).
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.volumes.ownership import Change, ChangeProgress
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.reports.events import WARNING, EventRecorder, Reason

_T = TypeVar("_T")
_FIRST: Final[Seconds] = 30.0
_INTERVAL: Final[Seconds] = 60.0
_REMEDY: Final = (
    "is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/"
    "configure-pod-container/security-context/"
    "#configure-volume-permission-and-ownership-change-policy-for-pods"
)


class BlockingJobs(Struct, frozen=True):
    """Runs blocking jobs, one at a time for each owner (``pod/<uid>/volumes``, ``volume/<name>``)."""

    deadline: Seconds

    async def run(self, owner: str, job: Callable[[], _T]) -> _T:
        """Run a job; return its result. Raises its error, or Transient if it has not ended by the deadline.

        A job that has timed out continues in its thread; its result is lost.
        """
        return await blocking.call(owner, job, deadline=self.deadline, at_once=1)


class SlowChanges:
    """Runs changes of a volume's files, which may take minutes, in the threads of their owners."""

    def __init__(self, *, events: EventRecorder, clock: Clock, stall: Seconds) -> None:
        """``stall``: how long no file may be changed until the file system is taken for hung."""
        self._events = events
        self._clock = clock
        self._stall = stall

    async def run(self, pod: PodRef, owner: str, path: Path, change: Change) -> None:
        """Run a change of the volume at ``path`` to its end, and send its warning as an event.

        Raises its error, or Transient if it stalls.

        The thread of a change that has stalled or was cancelled ends at its next file; the owner's next call waits.
        """
        progress = ChangeProgress()
        work = asyncio.create_task(
            blocking.call(owner, partial(change, progress=progress), deadline=None, at_once=1), name="volume-change"
        )
        watch = asyncio.create_task(self._watch(pod, path, progress), name="volume-change-progress")
        try:
            await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
            await (work if work.done() else watch)
            if progress.warning:
                self._events.event(pod, WARNING, Reason.ALREADY_MOUNTED_VOLUME, progress.warning)
        finally:
            progress.stop()
            for task in (work, watch):
                task.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)

    async def _watch(self, pod: PodRef, path: Path, progress: ChangeProgress) -> None:
        """Send events while it lasts; raise Transient when it stalls."""
        place, begin, sent = f"Setting volume ownership for {_from_uid(path, pod.uid)}", self._clock.monotonic(), 0
        seen, since = 0, begin
        while (now := self._clock.monotonic()) - since < self._stall:
            due = begin + _FIRST + sent * _INTERVAL
            await self._clock.sleep(min(due, since + self._stall) - now)
            if progress.files != seen:
                seen, since = progress.files, self._clock.monotonic()
            if self._clock.monotonic() >= due:
                text = f"{place}, processed {seen} files." if sent else f"{place} {_REMEDY}"
                self._events.event(pod, WARNING, Reason.VOLUME_PERMISSION_CHANGE, text)
                sent += 1
        raise Transient(
            f"setting volume ownership for {path}: no file was changed for {self._stall:g} s; its file system or "
            "device may not be responding"
        )


def _from_uid(path: Path, uid: str) -> str:
    """The path from the pod's UID on; the whole path if that is not in it."""
    parts = path.parts
    return "/".join(parts[parts.index(uid) :]) if uid in parts else str(path)
