"""CrashLoopBackOff: how long a container that keeps ending has to wait for its next start.

The delay doubles with each start that follows an exit and begins anew when a container has run long enough. After a
restart of the agent it is worked out from the attempts that the runtime still has, so nobody gets a fresh start from
killing the agent. Pure bookkeeping: times are passed in, all of one clock that does not jump.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pykubelet.base.backoff import Backoff
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.criconfig.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.types import PodRuntimeConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus

_LONGEST_STREAK = 32
"""Doublings beyond this change nothing, whatever the maximum."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The container has to wait."""

    delay: Seconds
    """The whole delay, for messages."""
    until: Seconds
    """Time of its end."""


class CrashLoop:
    """Back-off of all containers, by pod, name and spec: a changed image has a new one.

    ``ended`` says when an attempt has ended, on the clock that the times given to the methods are of.
    """

    def __init__(
        self,
        config: PodRuntimeConfig,
        ended: Callable[[ContainerStatus], Seconds] = operator.attrgetter("finished_at"),
    ) -> None:
        self._ended = ended
        self._reset_after = config.crash_reset_after
        self._backoff = Backoff(config.crash_initial, config.crash_maximum, reset_after=config.crash_reset_after)

    def wait(self, status: PodRuntimeStatus, container: AnyContainer, now: Seconds) -> Wait | None:
        """What is left to wait before the container may start again; None: it may start now."""
        exits = _exits(status, container.name)
        if not exits:
            return None
        key, ended = self._key(status.uid, container), self._ended(exits[0])
        if not self._backoff.delay(key) and exits[0].hash == container_hash(container):
            # Replay what happened before this agent was there; attempts of another image are of another series.
            began = ended - max(0.0, exits[0].finished_at - exits[0].started_at)
            for _ in range(min(crash_streak(exits, self._reset_after), _LONGEST_STREAK) - 1):
                self._backoff.next(key, began)
        if self._backoff.remaining(key, now, ended) <= 0:
            return None
        delay = self._backoff.delay(key)
        return Wait(delay, ended + delay)

    def starting(self, status: PodRuntimeStatus, container: AnyContainer, now: Seconds) -> None:
        """The container is about to be started: if it has ended before, the next wait is a longer one."""
        exits = _exits(status, container.name)
        if exits:
            self._backoff.next(self._key(status.uid, container), now, self._ended(exits[0]))

    def collect(self, now: Seconds) -> None:
        """Forget what would start anew anyhow."""
        self._backoff.gc(now)

    @staticmethod
    def _key(uid: PodUID, container: AnyContainer) -> tuple[str, str, str]:
        return (uid, container.name, container_hash(container))


def crash_streak(exits: Sequence[ContainerStatus], reset_after: Seconds) -> int:
    """How many exits, newest first, belong to the running series; the first of a series costs no wait.

    A series begins with the first exit of all, or with the exit after a long run. Attempts that the runtime has
    forgotten are taken to have ended early.
    """
    for count, attempt in enumerate(exits, start=1):
        if attempt.started_at and attempt.finished_at - attempt.started_at > reset_after:
            return count
    return max(len(exits), exits[0].restart_count + 1) if exits else 0


def _exits(status: PodRuntimeStatus, name: str) -> list[ContainerStatus]:
    return [c for c in status.containers if c.name == name and c.state is ContainerState.EXITED]
