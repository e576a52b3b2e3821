"""Delivers pod statuses to the API server: one request per pod at a time, always the newest status, until accepted.

Statuses that people or controllers may wait for are sent at once; mere progress waits a moment for its outcome
(``plan/delivery.py``). The patcher subscribes to the status manager. The API server's copy of a pod arrives through
:meth:`StatusPatcher.seen`, which detects statuses overwritten by others, and deletions to complete.
"""

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import Final, Protocol

from pykubelet.apiclient import ApiClient, Expired
from pykubelet.apiclient.resources import PODS
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.rate_limit import RateLimit
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.plan.delivery import hold_seconds
from pykubelet.kubelet.report.status.plan.patch import agent_part, status_patch
from pykubelet.kubelet.report.status.status_manager import StatusManager
from pykubelet.kubelet.report.status.status_types import StatusEntry
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.status_changes import StatusChange
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import Pod, PodStatus

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.2
_MAX_DELAY: Final = 10.0
_CORRECT_AGAIN: Final = 10.0
"""Minimum interval at which a status overwritten by others is sent again."""
_PROGRESS_PER_SECOND: Final = 5.0
_PROGRESS_BURST: Final = 5
_MAX_HOLD_SECONDS: Final = 5.0
"""Longest time for which progress is held back, however many pods start or end at once."""
_TICK: Final = 0.001
"""Shorter waits are skipped."""
_MODIFIED: Final = "the object has been modified"
"""The API server's message for a conflicting concurrent change; any other conflict is one of uids."""
_FLUSH_SECONDS: Final = 1.0
"""Time limit for pending statuses when the agent stops; the next agent delivers the rest."""


class ApiPods(Protocol):
    """The API server's objects for pods of this node, as last seen (desired/pods)."""

    def counterpart(self, uid: PodUID) -> Pod | None:
        """Return the API server's object for a pod: the pod itself, or the up-to-date mirror of a static pod."""


class PatcherMetrics(Protocol):
    """Metrics of the delivery, as the Go kubelet has them."""

    def status_synced(self, seconds: Seconds) -> None:
        """Record the delay from a status change until the API server has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatcherDeps:
    """Everything that :class:`StatusPatcher` acts through."""

    client: ApiClient
    statuses: StatusManager
    pods: ApiPods
    telemetry: Telemetry[PatcherMetrics]


@dataclass(slots=True)
class _Delivery:
    """The state of delivery of one pod's status."""

    target: str = ""
    """Uid of the API object that the status was sent to."""
    sent: PodStatus | None = None
    accepted: PodStatus | None = None
    """The agent's part of the status as the API server returned it; it may drop unknown fields."""
    version: int = 0
    """Resource version of the returned object."""
    corrected_at: Seconds = float("-inf")
    deleted: bool = False
    changed_at: Seconds | None = None
    """Time of the oldest change that is not delivered."""
    held_since: Seconds | None = None
    """Time since which a change is held back."""
    wakeup: asyncio.Event = field(default_factory=asyncio.Event)
    running: bool = False


class StatusPatcher:
    """Delivers statuses (see the module). :meth:`changed` and :meth:`seen` return at once."""

    def __init__(self, deps: PatcherDeps) -> None:
        self._deps = deps
        self._guard = Guard("status.pods", deps.telemetry.clock.monotonic)
        self._deliveries: dict[PodUID, _Delivery] = {}
        self._group: asyncio.TaskGroup | None = None
        self._early: set[PodUID] = set()
        self._progress = RateLimit(_PROGRESS_PER_SECOND, _PROGRESS_BURST, deps.telemetry.clock)
        self._backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.5)
        self.delivered = 0
        """Number of accepted PATCH requests, for tests and metrics."""

    async def run(self) -> None:
        """Deliver until cancelled, then deliver pending statuses if that is quickly done."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for uid in self._early:
                    self._wake(uid)
                self._early.clear()
                await asyncio.Event().wait()
        finally:
            await self._flush()

    def changed(self, change: StatusChange) -> None:
        """Deliver a changed status (subscriber of the status manager)."""
        if change.current is None:
            if (delivery := self._deliveries.pop(change.uid, None)) is not None:
                delivery.wakeup.set()
        else:
            self._wake(change.uid)
            delivery = self._deliveries.get(change.uid)
            if delivery is not None and delivery.changed_at is None:
                delivery.changed_at = self._deps.telemetry.clock.monotonic()

    def seen(self, uid: PodUID) -> None:
        """Handle a watch event for the API server's object of the pod ``uid``."""
        self._wake(uid)

    def _overwritten(self, delivery: _Delivery, pod: Pod) -> bool:
        if delivery.accepted is None or delivery.target != pod.metadata.uid:
            return False
        if _number(pod.metadata.resource_version) <= delivery.version or agent_part(pod.status) == delivery.accepted:
            return False
        return self._deps.telemetry.clock.monotonic() - delivery.corrected_at >= _CORRECT_AGAIN

    def _wake(self, uid: PodUID) -> None:
        if self._group is None:
            self._early.add(uid)
            return
        if self._deps.statuses.entry(uid) is None:
            return
        delivery = self._deliveries.setdefault(uid, _Delivery())
        delivery.wakeup.set()
        if not delivery.running:
            delivery.running = True
            self._group.create_task(self._deliver(uid, delivery), name=f"status of {uid}")

    async def _deliver(self, uid: PodUID, delivery: _Delivery) -> None:
        """Deliver the pod's status until nothing is pending."""
        try:
            goes_on = True
            while goes_on:
                delivery.wakeup.clear()
                with self._guard.item(uid) as attempt:
                    goes_on = await self._advance(uid, delivery)
                if attempt.error is not None:
                    await self._deps.telemetry.clock.sleep(self._guard.delay(uid))
        finally:
            delivery.running = False

    async def _advance(self, uid: PodUID, delivery: _Delivery) -> bool:
        """Take the next step of a delivery, or wait until it is due; return whether to go on."""
        entry = self._deps.statuses.entry(uid)
        pod = self._deps.pods.counterpart(uid)
        if entry is None or pod is None or delivery.deleted:
            return False
        if (seconds := self._held(entry, pod, delivery)) > 0:
            await self._hold(uid, seconds, delivery)
            return True
        try:
            if not await self._step(entry, pod, delivery):
                return False
            self._backoff.reset(uid)
        except (NotFound, Conflict) as error:
            if _MODIFIED in str(error):
                await self._wait(uid, delivery, Transient(str(error)))
                return True
            # Deleted, or replaced by another pod of the same name: a watch event follows or has arrived already.
            _log.info("pod status rejected", extra={"pod": str(ref_of(pod)), "error": str(error)})
            return delivery.wakeup.is_set()
        except PykubeletError as error:
            await self._wait(uid, delivery, error)
        return True

    def _held(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> Seconds:
        """Return the seconds that the status is still to be held back; 0: send it."""
        known = delivery.sent if delivery.sent is not None and delivery.target == pod.metadata.uid else pod.status
        if known == entry.status:
            delivery.held_since = None
            return 0.0
        if entry.finished:
            return 0.0
        deleted = pod.metadata.deletion_timestamp is not None
        allowed = hold_seconds(known, entry.status, deleted=deleted)
        if not allowed:
            return 0.0
        now = self._deps.telemetry.clock.monotonic()
        if delivery.held_since is None:
            delivery.held_since = now
        waited = now - delivery.held_since
        if allowed - waited > _TICK:
            return allowed - waited
        # When many pods start at once, only some report progress, so that every pod reports Running in time.
        return allowed if waited < _MAX_HOLD_SECONDS and not self._progress.try_take() else 0.0

    async def _hold(self, uid: PodUID, seconds: Seconds, delivery: _Delivery) -> None:
        """Wait so many seconds, or until the next change."""
        assert self._group is not None

        async def ring() -> None:
            await self._deps.telemetry.clock.sleep(seconds)
            delivery.wakeup.set()

        timer = self._group.create_task(ring(), name=f"held status of {uid}")
        try:
            await delivery.wakeup.wait()
        finally:
            timer.cancel()

    async def _flush(self) -> None:
        """Make a last attempt to deliver pending statuses."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS), asyncio.TaskGroup() as group:
                for uid, delivery in self._deliveries.items():
                    entry, pod = self._deps.statuses.entry(uid), self._deps.pods.counterpart(uid)
                    if entry is not None and pod is not None and delivery.sent != entry.status:
                        group.create_task(self._last(entry, pod, delivery), name=f"last status of {uid}")

    async def _last(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> None:
        try:
            await self._patch(entry, pod, delivery)
        except PykubeletError as error:
            _log.info("pod status not delivered before shutdown", extra={"pod": str(ref_of(pod)), "error": str(error)})

    async def _step(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> bool:
        """Send what is due; return False if nothing is."""
        uid = pod.metadata.uid
        if self._overwritten(delivery, pod):
            _log.info("pod status overwritten by another client; sending it again", extra={"pod": str(ref_of(pod))})
            delivery.corrected_at = self._deps.telemetry.clock.monotonic()
            delivery.sent = None
        if delivery.target != uid or delivery.sent != entry.status:
            await self._patch(entry, pod, delivery)
            return True
        static = is_static(entry.pod)
        if not entry.finished or static or pod.metadata.deletion_timestamp is None:
            return False
        target = PODS.at(pod.metadata.namespace, pod.metadata.name)
        await self._deps.client.delete(target, uid, grace_seconds=0)
        _log.info("pod deleted from the API server", extra={"pod": str(ref_of(pod)), "uid": uid})
        delivery.deleted = True
        return False

    async def _patch(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> None:
        uid = pod.metadata.uid
        delivery.held_since = None
        if delivery.target != uid and agent_part(pod.status) == agent_part(entry.status):
            # After a restart of the agent the API server has this status already.
            delivery.target, delivery.sent, delivery.accepted = uid, entry.status, agent_part(pod.status)
            delivery.version = _number(pod.metadata.resource_version)
            return
        target = PODS.at(pod.metadata.namespace, pod.metadata.name, "status")
        since, delivery.changed_at = delivery.changed_at, None
        try:
            answer = await self._deps.client.patch(target, status_patch(uid, pod, entry.status))
        except Invalid as error:
            if "metadata.uid" in str(error):
                raise Expired(f"pod {ref_of(pod)} was replaced: it has another uid now") from error
            raise
        except PykubeletError:
            delivery.changed_at = since
            raise
        self.delivered += 1
        if since is not None:
            self._deps.telemetry.metrics.status_synced(self._deps.telemetry.clock.monotonic() - since)
        delivery.target, delivery.sent, delivery.accepted = uid, entry.status, agent_part(answer.status)
        delivery.version = _number(answer.metadata.resource_version)

    async def _wait(self, uid: PodUID, delivery: _Delivery, error: PykubeletError) -> None:
        delay = self._backoff.next(uid, self._deps.telemetry.clock.monotonic())
        delay = max(delay, error.retry_after or 0.0) if isinstance(error, Transient) else _MAX_DELAY
        _log.warning("pod status not delivered; retrying", extra={"uid": uid, "error": str(error), "delay_s": delay})
        if isinstance(error, Transient):
            await self._deps.telemetry.clock.sleep(delay)
            return
        # The API server rejects this status; it may accept the next one.
        try:
            async with asyncio.timeout(delay):
                await delivery.wakeup.wait()
        except TimeoutError:
            return


def _number(version: str) -> int:
    """Return a resource version as a number (they grow, KEP-5504); 0 for an invalid one."""
    return int(version) if version.isdecimal() else 0
