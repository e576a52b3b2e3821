"""CrashLoopBackOff: the delay before a container that keeps exiting is started again.

The delay doubles with each start that follows an exit and is reset when a container has run long enough. After a
restart of the agent it is computed from the attempts that the runtime still has, so a restart does not reset it.
`ContainerStarter.check_back_off` in ``podruntime/start/start_container.py`` refuses the start with the reason
CrashLoopBackOff, which the status shows; ``actuate/assembly.py`` passes the limits of the configuration.

`Backoff` in ``base/backoff.py`` computes the delays and keeps them; this module decides when a series begins and which
exits count. So a `CrashLoop` has state, but no other effects; times are arguments, all from one monotonic clock.
"""

import operator
from collections.abc import Callable, Sequence

from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri_messages.labels import container_hash
from pykubelet.kubelet.actuate.podruntime.podruntime_types import PodRuntimeConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.podspec import AnyContainer
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus
from pykubelet.models import codec

_LONGEST_STREAK = 32
"""Number of exits after which the delay has reached any maximum."""
_DELAYS: tuple[Seconds, Seconds] = (10.0, 300.0)
_REDUCED_DELAYS: tuple[Seconds, Seconds] = (1.0, 60.0)


def crash_delays(*, reduced: bool, maximum: Seconds | None) -> tuple[Seconds, Seconds]:
    """Return the first and the longest delay (KEP-4603).

    ``reduced``: the feature gate ReduceDefaultCrashLoopBackOffDecay is on. ``maximum`` is that of the configuration,
    None if the feature gate KubeletCrashLoopBackOffMax is off.
    """
    first, longest = _REDUCED_DELAYS if reduced else _DELAYS
    longest = maximum if maximum is not None else longest
    return min(first, longest), longest


class Wait(Struct, frozen=True):
    """Back-off of a container that has to wait."""

    delay: Seconds
    """The full delay, for messages."""
    until: Seconds
    """Time when the delay ends."""


class CrashLoop:
    """Back-off of all containers, by pod, container name, hash of its spec and resources: a changed spec, or other
    resources after a resize, start without delay.

    ``ended`` returns the exit time of an attempt, on the same clock as the times passed to the methods.
    """

    def __init__(
        self,
        config: PodRuntimeConfig,
        ended: Callable[[ContainerStatus], Seconds] = operator.attrgetter("finished_at"),
    ) -> None:
        self._ended = ended
        self._reset_after = config.crash_reset_after
        self._first: dict[tuple[str, str, str], bytes] = {}
        """The first resources that were seen of each container: exits from before the agent's start count for them."""
        self._backoff = Backoff(config.crash_initial, config.crash_maximum, reset_after=config.crash_reset_after)

    def limit(self, maximum: Seconds) -> None:
        """Use this longest delay from now on, also for containers that wait."""
        self._backoff.limit(maximum)

    def wait(self, status: PodRuntimeStatus, container: AnyContainer, now: Seconds) -> Wait | None:
        """Return the back-off if the container may not start again yet; None: it may start now.

        The first call for a container also learns of its exits from before the agent's start.
        """
        exits = _exits(status, container.name)
        latest = status.latest(container.name)
        if not exits or (latest is not None and latest.restart_requested):
            return None
        key, ended = self._key(status.uid, container), self._ended(exits[0])
        first = self._first.setdefault(key[:3], key[3]) == key[3]
        if first and not self._backoff.delay(key) and exits[0].hash == container_hash(container):
            # Replay the exits from before this agent's start; attempts with another spec do not count.
            began = ended - max(0.0, exits[0].finished_at - exits[0].started_at)
            for _ in range(min(crash_streak(exits, self._reset_after), _LONGEST_STREAK) - 1):
                self._backoff.next(key, began)
        if self._backoff.remaining(key, now, ended) <= 0:
            return None
        delay = self._backoff.delay(key)
        return Wait(delay, ended + delay)

    def starting(self, status: PodRuntimeStatus, container: AnyContainer, now: Seconds) -> None:
        """Record that the container is about to be started: after an earlier exit, the next delay is longer."""
        exits = _exits(status, container.name)
        if exits:
            key = self._key(status.uid, container)
            self._first.setdefault(key[:3], key[3])
            self._backoff.next(key, now, self._ended(exits[0]))

    def forget(self, uid: PodUID) -> None:
        """Drop the back-offs of a pod that was removed. Its manifest may be written again, with the same uid."""
        for key in self._backoff.known():
            if isinstance(key, tuple) and key[0] == uid:
                self._backoff.reset(key)
        self._first = {key: size for key, size in self._first.items() if key[0] != uid}

    def collect(self, now: Seconds) -> None:
        """Forget back-offs that would be reset anyway."""
        self._backoff.gc(now)
        self._first = {key: size for key, size in self._first.items() if self._backoff.delay((*key, size))}

    @staticmethod
    def _key(uid: PodUID, container: AnyContainer) -> tuple[str, str, str, bytes]:
        return (uid, container.name, container_hash(container), codec.encode(container.resources))


def crash_streak(exits: Sequence[ContainerStatus], reset_after: Seconds) -> int:
    """Count the exits, newest first, of the current crash series; the first exit of a series has no delay.

    A series begins with the first exit, or with the exit after a run of more than ``reset_after`` seconds. Attempts
    that the runtime has removed are assumed to have exited early.
    """
    for count, attempt in enumerate(exits, start=1):
        if attempt.started_at and attempt.finished_at - attempt.started_at > reset_after:
            return count
    return max(len(exits), exits[0].restart_count + 1) if exits else 0


def _exits(status: PodRuntimeStatus, name: str) -> list[ContainerStatus]:
    return [c for c in status.attempts(name) if c.state is ContainerState.EXITED]
