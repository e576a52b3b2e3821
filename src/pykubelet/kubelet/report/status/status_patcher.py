"""Delivers pod statuses to the API server: one request per pod at a time, always the newest status, until accepted.

Statuses that people or controllers may wait for are sent at once; mere progress waits a moment for its outcome
(``plan/delivery.py``). What is due is decided in ``plan/next_request.py``. The patcher subscribes to the status
manager. The API server's copy of a pod arrives through :meth:`StatusPatcher.seen`, which detects statuses overwritten
by others, and deletions to complete.
"""

import asyncio
import contextlib
import logging
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.apiclient import ApiClient, Expired
from pykubelet.apiclient.resources import PODS
from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.rate_limit import RateLimit
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.status.plan.next_request import (
    MAX_RETRY_SECONDS,
    DeliveryState,
    Request,
    delivered,
    hold,
    is_concurrent_change,
    newest,
    next_request,
    retry_seconds,
    update,
)
from pykubelet.kubelet.report.status.plan.patch import status_patch
from pykubelet.kubelet.report.status.status_manager import StatusManager
from pykubelet.kubelet.report.status.status_types import StatusEntry
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.reports.status_changes import StatusChange
from pykubelet.models.core_v1 import Pod

_log = logging.getLogger(__name__)

_FIRST_DELAY: Final = 0.2
_PROGRESS_PER_SECOND: Final = 5.0
_PROGRESS_BURST: Final = 5
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


class PatcherDeps(Struct, frozen=True, kw_only=True):
    """Everything that :class:`StatusPatcher` acts through."""

    client: ApiClient
    statuses: StatusManager
    pods: ApiPods
    telemetry: Telemetry[PatcherMetrics]


class _Delivery(Struct, kw_only=True):
    """The delivery of one pod's status."""

    wakeup: Wakeup
    state: DeliveryState = DeliveryState()
    changed_at: Seconds | None = None
    """Time of the oldest change that is not delivered."""
    running: bool = False


class StatusPatcher:
    """Delivers statuses (see the module). :meth:`changed` and :meth:`seen` return at once."""

    def __init__(self, deps: PatcherDeps) -> None:
        """Deliver the statuses that change from now on."""
        self._deps = deps
        self._guard = Guard("status.pods", deps.telemetry.clock.monotonic)
        self._deliveries: dict[PodUID, _Delivery] = {}
        self._group: asyncio.TaskGroup | None = None
        self._early: set[PodUID] = set()
        self._progress = RateLimit(_PROGRESS_PER_SECOND, _PROGRESS_BURST, clock=deps.telemetry.clock)
        self._backoff = Backoff(_FIRST_DELAY, MAX_RETRY_SECONDS, jitter=0.5)
        self.delivered = 0
        """Number of accepted PATCH requests, for tests and metrics."""
        deps.statuses.subscribe(self.changed)

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
                delivery.wakeup.wake()
        else:
            self._wake(change.uid)
            delivery = self._deliveries.get(change.uid)
            if delivery is not None and delivery.changed_at is None:
                delivery.changed_at = self._deps.telemetry.clock.monotonic()

    def seen(self, uid: PodUID) -> None:
        """Handle a watch event for the API server's object of the pod ``uid``."""
        self._wake(uid)

    def _wake(self, uid: PodUID) -> None:
        if self._group is None:
            self._early.add(uid)
            return
        if self._deps.statuses.entry(uid) is None:
            return
        delivery = self._deliveries.get(uid)
        if delivery is None:
            wakeup = Wakeup(self._deps.telemetry.clock)
            delivery = self._deliveries[uid] = _Delivery(wakeup=wakeup)
        delivery.wakeup.wake()
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
        if entry is None or pod is None or delivery.state.deleted:
            return False
        if (seconds := self._held(entry, pod, delivery)) > 0:
            await delivery.wakeup.sleep(seconds)
            return True
        try:
            if not await self._step(entry, pod, delivery):
                return False
            self._backoff.reset(uid)
        except (NotFound, Conflict) as error:
            if is_concurrent_change(error):
                await self._wait(uid, delivery, Transient(str(error)))
                return True
            # Deleted, or replaced by another pod of the same name: a watch event follows or has arrived already.
            _log.info("pod status rejected", extra={"pod": str(ref_of(pod)), "error": str(error)})
            return delivery.wakeup.woken
        except PykubeletError as error:
            await self._wait(uid, delivery, error)
        return True

    def _held(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> Seconds:
        """Return the seconds that the status is still to be held back; 0: send it."""
        held = hold(delivery.state, entry, pod, self._deps.telemetry.clock.monotonic())
        delivery.state = replace(delivery.state, held_since=held.since)
        return 0.0 if held.limited and self._progress.try_take() else held.seconds

    async def _flush(self) -> None:
        """Make a last attempt to deliver pending statuses."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_SECONDS), asyncio.TaskGroup() as group:
                for uid, delivery in self._deliveries.items():
                    entry, pod = self._deps.statuses.entry(uid), self._deps.pods.counterpart(uid)
                    if entry is not None and pod is not None and delivery.state.sent != entry.published:
                        group.create_task(self._last(entry, pod, delivery), name=f"last status of {uid}")

    async def _last(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> None:
        with self._guard.item(ref_of(pod).uid):
            try:
                await self._send(entry, pod, delivery, update(delivery.state, entry.published, pod))
            except PykubeletError as error:
                _log.info(
                    "pod status not delivered before shutdown", extra={"pod": str(ref_of(pod)), "error": str(error)}
                )

    async def _step(self, entry: StatusEntry, pod: Pod, delivery: _Delivery) -> bool:
        """Send what is due; return False if nothing more is."""
        due = next_request(delivery.state, entry, pod, self._deps.telemetry.clock.monotonic())
        delivery.state = due.state
        if due.overwritten:
            _log.info("pod status overwritten by another client; sending it again", extra={"pod": str(ref_of(pod))})
        match due.request:
            case Request.NONE:
                return False
            case Request.DELETE:
                await self._delete(pod, delivery)
                return False
            case _:
                await self._send(entry, pod, delivery, due.request)
                return True

    async def _delete(self, pod: Pod, delivery: _Delivery) -> None:
        uid, target = pod.metadata.uid, PODS.at(pod.metadata.namespace, pod.metadata.name)
        await self._deps.client.delete(target, uid, grace_seconds=0)
        _log.info("pod deleted from the API server", extra={"pod": str(ref_of(pod)), "uid": uid})
        delivery.state = replace(delivery.state, deleted=True)

    async def _send(self, entry: StatusEntry, pod: Pod, delivery: _Delivery, request: Request) -> None:
        uid = pod.metadata.uid
        delivery.state = replace(delivery.state, held_since=None)
        if request is Request.ADOPT:
            delivery.state = delivered(delivery.state, entry.published, uid, pod)
            return
        target = PODS.at(pod.metadata.namespace, pod.metadata.name, "status")
        since, delivery.changed_at = delivery.changed_at, None
        try:
            patch = status_patch(uid, newest(delivery.state, pod), entry.published)
            answer = await self._deps.client.patch(target, patch)
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
        delivery.state = delivered(delivery.state, entry.published, uid, answer)

    async def _wait(self, uid: PodUID, delivery: _Delivery, error: PykubeletError) -> None:
        clock = self._deps.telemetry.clock
        delay = retry_seconds(error, self._backoff.next(uid, clock.monotonic()))
        _log.warning("pod status not delivered; retrying", extra={"uid": uid, "error": str(error), "delay_s": delay})
        if isinstance(error, Transient):
            await clock.sleep(delay)
        else:
            # The API server rejects this status; it may accept the next one.
            await delivery.wakeup.sleep(delay)
