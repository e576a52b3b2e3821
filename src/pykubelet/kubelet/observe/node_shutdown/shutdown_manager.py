"""`NodeShutdown`: delays the shutdown of the machine until the pods have ended, group by group.

One task follows logind, over connections that are opened again when the message bus or logind restarts; another ends
the pods. So a lost connection does not interrupt a shutdown, and a cancellation is noticed while pods end.
"""

import asyncio
import logging
from typing import Final

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period, PodGroup, grace_seconds, grouped, total_seconds
from pykubelet.kubelet.observe.node_shutdown.shutdown_interfaces import Lock, Logind, ShutdownConfig, ShutdownDeps
from pykubelet.kubelet.observe.node_shutdown.shutdown_state import ShutdownTimes, read_times, write_times
from pykubelet.kubelet.types.admission import SHUTDOWN_MESSAGE, SHUTDOWN_REASON
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.reports.events import NORMAL, Reason

_log = logging.getLogger(__name__)

RECONNECT_SECONDS: Final[Seconds] = 1.0
_LONGEST_DELAY: Final[Seconds] = 30.0
"""Longest delay between attempts to reach logind."""
_RELOAD_SECONDS: Final[Seconds] = 5.0
"""Time that logind has to read its configuration again."""
_POLL_SECONDS: Final[Seconds] = 0.1
_STORE_SECONDS: Final[Seconds] = 2.0
"""Longest time that a slow disk may delay the shutdown."""
_INHIBITOR, _WHY = "kubelet", "Kubelet needs time to handle node shutdown"
_FAULT: Final = "node is shutting down"
"""Part of the message of the node's Ready condition, as in the Go kubelet."""
_OWNER: Final = "node-shutdown"


class NodeShutdown:
    """Graceful node shutdown (KEP-2000, KEP-2712). Without periods it does nothing."""

    def __init__(self, deps: ShutdownDeps, config: ShutdownConfig) -> None:
        self._deps = deps
        self._config = config
        self._clock = deps.telemetry.clock
        self._connections = Guard("node-shutdown.logind", self._clock.monotonic, maximum=_LONGEST_DELAY)
        self._rounds = Guard("node-shutdown.rounds", self._clock.monotonic)
        self._pods = Guard("node-shutdown.pods", self._clock.monotonic)
        self._lock: Lock | None = None
        self._under_way = False
        self._requested = asyncio.Event()
        self._periods = config.periods
        self._reconfigured = asyncio.Event()
        self._connection: asyncio.Timeout | None = None
        """Ends the connection to logind when the periods change."""

    def reconfigure(self, periods: tuple[Period, ...]) -> None:
        """Use these periods from now on; a shutdown that is under way keeps the former ones."""
        self._periods = periods
        if not self._under_way:
            self._reconfigured.set()
            # One that ends already cannot be rescheduled; the next one has these periods.
            if self._connection is not None and not self._connection.expired():
                self._connection.reschedule(asyncio.get_running_loop().time())

    def under_way(self) -> bool:
        """Whether the machine is shutting down, so that no pod is admitted."""
        return self._under_way

    def fault(self) -> str | None:
        """Return why the node is not ready, or None."""
        return _FAULT if self._under_way else None

    async def run(self) -> None:
        """Wait for shutdowns and end the pods, until cancelled; then the lock is released."""
        try:
            if self._periods:
                await self._restore_metrics()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch(), name="node-shutdown-watch")
                group.create_task(self._end_pods_on_request(), name="node-shutdown-pods")
        finally:
            self._release()

    async def _restore_metrics(self) -> None:
        try:
            times = await blocking.call(_OWNER, read_times, self._config.state_file)
        except (PykubeletError, OSError) as error:
            _log.warning("node shutdown: times of the last one cannot be read", extra={"error": str(error)})
            return
        self._deps.telemetry.metrics.shutdown_times(times.start, times.end)

    async def _watch(self) -> None:
        """Follow logind while there are periods; connect again after a second, or later if that fails repeatedly."""
        while True:
            self._reconfigured.clear()
            if not self._periods:
                self._release()
                await self._reconfigured.wait()
                continue
            with self._connections.item("logind"):
                await self._follow_until_reconfigured()
            if not self._reconfigured.is_set():
                await self._clock.sleep(max(RECONNECT_SECONDS, self._connections.delay("logind")))

    async def _follow_until_reconfigured(self) -> None:
        try:
            async with asyncio.timeout(None) as self._connection:
                await self._follow()
        except TimeoutError:
            if not self._reconfigured.is_set():
                raise
        finally:
            self._connection = None

    async def _follow(self) -> None:
        """Hold a lock and handle announcements until the connection ends, which raises Transient."""
        async with self._deps.connect() as logind:
            if await logind.preparing():
                self._begin()
            else:
                await self._raise_max_delay(logind)
                await self._resume(logind)
            self._connections.succeeded("logind")
            while True:
                if await logind.next_change():
                    self._begin()
                else:
                    await self._resume(logind)

    async def _raise_max_delay(self, logind: Logind) -> None:
        """Configure logind's longest delay if it is shorter than the periods.

        Raises Transient if the delay stays too short: another file of logind's configuration may override it.
        """
        wanted = total_seconds(self._periods)
        if await logind.max_delay() >= wanted:
            return
        await blocking.call(_OWNER, self._write_drop_in, wanted)
        await logind.reload()
        end = self._clock.monotonic() + _RELOAD_SECONDS
        while (found := await logind.max_delay()) < wanted:
            if self._clock.monotonic() >= end:
                raise Transient(
                    f"node shutdown manager was unable to update logind InhibitDelayMaxSec to {wanted}s "
                    f"(ShutdownGracePeriod), current value of InhibitDelayMaxSec ({found:g}s) is less than requested "
                    f"ShutdownGracePeriod; see systemd-analyze cat-config systemd/logind.conf"
                )
            await self._clock.sleep(_POLL_SECONDS)

    def _write_drop_in(self, seconds: int) -> None:
        path = self._config.drop_in
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_atomic(path, f"# Kubelet logind override\n[Login]\nInhibitDelayMaxSec={seconds}\n".encode(), 0o644)

    async def _resume(self, logind: Logind) -> None:
        """Take a lock for the next shutdown, instead of the former one; a shutdown under way was cancelled."""
        if self._under_way:
            _log.warning("node shutdown: cancelled")
            self._report("Shutdown manager detected shutdown cancellation", under_way=False)
        former, self._lock = self._lock, await logind.inhibit(_INHIBITOR, _WHY)
        if former is not None:
            former.release()

    def _begin(self) -> None:
        if self._under_way:
            return
        _log.warning("node shutdown: ending the pods")
        self._report("Shutdown manager detected shutdown event", under_way=True)
        self._requested.set()

    def _report(self, message: str, *, under_way: bool) -> None:
        self._deps.telemetry.events.event(None, NORMAL, Reason.NODE_SHUTDOWN, message)
        self._under_way = under_way
        self._deps.changed()

    async def _end_pods_on_request(self) -> None:
        while True:
            await self._requested.wait()
            self._requested.clear()
            with self._rounds.item("shutdown"):
                await self._end_pods()
            if self._under_way:
                self._release()
                _log.warning("node shutdown: done, the machine may go down")

    async def _end_pods(self) -> None:
        start = self._clock.now()
        await self._store(ShutdownTimes(start))
        for group in grouped(self._periods, self._deps.workers.running()):
            await self._end_group(group)
        await self._store(ShutdownTimes(start, self._clock.now()))

    async def _end_group(self, group: PodGroup) -> None:
        """Stop the pods of a group and wait until they have released their volumes, at most for its period."""
        if not self.under_way():
            return
        end = self._clock.monotonic() + group.period.seconds
        for pod in group.pods:
            ref = ref_of(pod)
            with self._pods.item(ref.uid):
                grace = grace_seconds(pod, group.period)
                _log.info("node shutdown: stopping pod", extra={"pod": str(ref), "grace_s": grace})
                self._deps.workers.fail(ref.uid, SHUTDOWN_REASON, SHUTDOWN_MESSAGE, grace)
        while left := [str(ref_of(pod)) for pod in group.pods if not self._deps.workers.released(ref_of(pod).uid)]:
            if not self.under_way():
                return
            if self._clock.monotonic() >= end:
                fields = {"pods": ", ".join(left), "priority": group.period.priority, "after_s": group.period.seconds}
                _log.error("node shutdown: pods have not ended in time", extra=fields)
                return
            await self._clock.sleep(_POLL_SECONDS)

    async def _store(self, times: ShutdownTimes) -> None:
        self._deps.telemetry.metrics.shutdown_times(times.start, times.end)
        try:
            await blocking.call(_OWNER, write_times, self._config.state_file, times, deadline=_STORE_SECONDS)
        except (PykubeletError, OSError) as error:
            _log.warning("node shutdown: its times cannot be stored", extra={"error": str(error)})

    def _release(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
