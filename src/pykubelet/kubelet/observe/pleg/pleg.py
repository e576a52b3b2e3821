"""`Pleg`: follows the runtime's events where it sends them, and lists its pods as a safety net.

It detects changes in three ways, from the fastest to the most reliable:

* an event of the runtime is applied to the last known list at once;
* without events, single pods in transition are checked, frequently at first and more rarely as time passes;
* all pods are listed every second without events, every ten seconds with them, and at once when an event cannot be
  assigned to a pod.

Lists and checks never overlap: one runs at a time, and at most one is requested meanwhile. A runtime that is down or
hangs delays them and makes PLEG unhealthy, but does not end it.
"""

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from pykubelet.base.backoff import Backoff
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import PykubeletError, Unsupported
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pleg.plan import diff, schedule
from pykubelet.kubelet.observe.pleg.plan.event_effects import PodCheck, PodStateChange, Relist, effect
from pykubelet.kubelet.observe.pleg.plan.schedule import ScheduledCheck
from pykubelet.kubelet.observe.pleg.pleg_interfaces import PlegDeps
from pykubelet.kubelet.observe.pleg.pleg_types import PlegConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind

_log = logging.getLogger(__name__)


class Pleg:
    """The pod lifecycle event generator. All methods but `run` return at once; call them from the loop's thread."""

    def __init__(self, deps: PlegDeps, config: PlegConfig | None = None) -> None:
        self._deps = deps
        self._config = config or PlegConfig()
        self._loop_guard = Guard("pleg.looks", deps.telemetry.clock.monotonic)
        self._guard = Guard("pleg.pods", deps.telemetry.clock.monotonic)
        self._event_guard = Guard("pleg.events", deps.telemetry.clock.monotonic)
        self._pods: dict[PodUID, RuntimePod] = {}
        self._owner: dict[str, PodUID] = {}
        """The pod of each known container and sandbox, by id."""
        self._checks: dict[PodUID, ScheduledCheck] = {}
        self._events_meanwhile: list[RuntimeEvent] | None = None
        """Events since the running list or check began, whose reply may be older than they are; None: none runs."""
        self._relist_at: Seconds = -math.inf
        self._free_at: Seconds = -math.inf
        self._last_success: Seconds | None = None
        self._runtime_down = False
        self._stream_since: Seconds | None = None
        self._events_have_pods = False
        """Whether the runtime's events carry the state of the whole pod, so that no list is needed."""
        self._wakeup = Wakeup(deps.telemetry.clock)

    @property
    def pods(self) -> Mapping[PodUID, RuntimePod]:
        """The last known pods of the runtime; empty until the first list."""
        return MappingProxyType(self._pods)

    async def run(self) -> None:
        """Detect changes until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._relist_forever(), name="pleg-relist")
            group.create_task(self._watch_forever(), name="pleg-events")

    def poke(self, uid: PodUID) -> None:
        """Check the pod frequently for a while: the agent has changed it, or expects a change soon."""
        if self._trusts_events():
            if not self._events_have_pods:
                self._relist_by(self._now() + self._config.batch_delay)
        else:
            self._set_check(uid, schedule.first_check(self._now(), self._config))

    def healthy(self) -> str | None:
        """Return None, or why PLEG is unhealthy, in the words of the Go kubelet."""
        return schedule.fault(self._last_success, self._now(), self._config)

    # -- the runtime's events

    async def _watch_forever(self) -> None:
        config = self._config
        backoff = Backoff(config.reconnect_first, config.reconnect_longest, jitter=0.1)
        while True:
            self._stream_since, self._events_have_pods = self._now(), False
            delay = config.reconnect_longest
            with self._loop_guard.item("event stream"):
                delay = await self._watch(backoff)
            if self._trusts_events():
                self._relist_by(self._now())
            self._stream_since = None
            await self._deps.telemetry.clock.sleep(delay)

    async def _watch(self, backoff: Backoff) -> Seconds:
        """Follow the stream until it ends; return the seconds after which to reconnect."""
        try:
            await self._deps.watch_events(self._on_runtime_event)
            return backoff.next("stream", self._now())
        except Unsupported as error:
            _log.info("pleg: runtime sends no events; listing its pods instead", extra={"error": str(error)})
            return self._config.unsupported_retry
        except PykubeletError as error:
            delay = backoff.next("stream", self._now())
            # Only a stream that has worked is worth a warning; a runtime that is down is reported by the lists.
            level = logging.WARNING if self._trusts_events() else logging.DEBUG
            _log.log(level, "pleg: event stream of the runtime broke", extra={"error": str(error), "delay_s": delay})
            self._deps.telemetry.metrics.stream_error()
            return delay

    def _trusts_events(self) -> bool:
        return schedule.is_trusted(self._stream_since, self._now(), self._config)

    def _on_runtime_event(self, event: RuntimeEvent) -> None:
        if self._events_meanwhile is not None:
            self._events_meanwhile.append(event)
        if event.kind is not RuntimeEventKind.DELETED:
            self._events_have_pods = event.seen is not None
        match effect(event, self._owner.get(event.container_id), self._config):
            case PodStateChange(uid=uid):
                self._accept(uid, diff.after(self._pods.get(uid), event))
            case PodCheck(uid=uid):
                self._set_check(uid, ScheduledCheck(self._now(), self._now()))
            case Relist(within=seconds):
                self._relist_by(self._now() + seconds)
            case None:
                pass

    # -- lists of all pods, and checks of one

    async def _relist_forever(self) -> None:
        while True:
            self._wakeup.clear()
            now = self._now()
            todo = schedule.due(self._relist_at, self._checks, self._free_at, now, self._config.single_checks)
            if todo.wait > 0:
                await self._wakeup.sleep(todo.wait)
                continue
            if todo.relist:
                await self._relist()
            for uid in todo.checks:
                with self._loop_guard.item(uid) as attempt:
                    await self._check_pod(uid)
                if attempt.error is not None:
                    self._checks.pop(uid, None)  # the list of all pods shows it
            self._free_at = schedule.free_at(now, self._now(), self._config)

    async def _relist(self) -> None:
        started, metrics = self._now(), self._deps.telemetry.metrics
        self._relist_at = schedule.relist_at(started, self._config, trusted=self._trusts_events())
        if self._last_success is not None:
            metrics.relist_interval(started - self._last_success)
        self._events_meanwhile = []
        try:
            listed = await self._deps.list_pods()
        except PykubeletError as error:
            self._note_failure(error)
            self._relist_at = min(self._relist_at, schedule.relist_at(started, self._config, trusted=False))
        else:
            self._accept_all(listed)
            self._note_success(started)
        finally:
            self._events_meanwhile = None
            metrics.relist_duration(self._now() - started)
        self._plan_checks([uid for uid, check in self._checks.items() if check.at <= started])

    async def _check_pod(self, uid: PodUID) -> None:
        started = self._now()
        self._events_meanwhile = []
        try:
            pod = await self._deps.list_pod(uid)
        except PykubeletError as error:
            # The next list of all pods shows whether the runtime is down.
            _log.debug("pleg: check of a pod failed", extra={"uid": uid, "error": str(error)})
        else:
            self._accept(uid, diff.after_all(uid, pod, self._events_meanwhile))
        finally:
            self._events_meanwhile = None
            self._deps.telemetry.metrics.pod_relist_duration(self._now() - started)
        if (check := self._checks.get(uid)) and check.at <= started:
            self._plan_checks([uid])

    def _plan_checks(self, checked: Collection[PodUID]) -> None:
        following = schedule.following_checks(self._checks, checked, self._now(), self._config)
        for uid in checked:
            del self._checks[uid]
        if not self._trusts_events():
            self._checks.update(following)

    def _note_failure(self, error: PykubeletError) -> None:
        if not self._runtime_down:
            _log.warning("pleg: cannot list pods of the runtime; retrying every second", extra={"error": str(error)})
        self._runtime_down = True

    def _note_success(self, started: Seconds) -> None:
        if self._runtime_down:
            _log.info("pleg: pods of the runtime can be listed again")
            self._deps.on_recovered()
        self._runtime_down = False
        self._last_success = started
        self._deps.telemetry.metrics.last_seen(self._deps.telemetry.clock.now() - (self._now() - started))
        self._deps.telemetry.metrics.running(*diff.count_running(self._pods))

    # -- observed states

    def _accept_all(self, listed: Iterable[RuntimePod]) -> None:
        answer, meanwhile = {pod.uid: pod for pod in listed}, self._events_meanwhile or ()
        for uid in diff.to_compare(self._pods, answer, meanwhile):
            with self._guard.item(uid):
                pod = diff.after_all(uid, answer.get(uid), meanwhile)
                if pod != self._pods.get(uid):
                    self._accept(uid, pod)

    def _accept(self, uid: PodUID, pod: RuntimePod | None) -> None:
        old = self._pods.pop(uid, None)
        events = diff.diff_pod(uid, old, pod)
        for each in diff.ids(old) if old is not None else ():
            self._owner.pop(each, None)
        if pod is not None and (known := diff.ids(pod)):
            self._pods[uid] = pod
            self._owner.update(dict.fromkeys(known, uid))
        self._publish(events)

    def _publish(self, events: Iterable[PodLifecycleEvent]) -> None:
        watch_closely = self._last_success is not None and not self._trusts_events()
        for event in filter(diff.is_published, events):
            with self._event_guard.item(event.uid):
                self._deps.on_event(event)
            pod = self._pods.get(event.uid)
            if watch_closely and pod is not None and pod.is_running:
                self._set_check(event.uid, schedule.first_check(self._now(), self._config))

    # -- time

    def _now(self) -> Seconds:
        return self._deps.telemetry.clock.monotonic()

    def _relist_by(self, at: Seconds) -> None:
        if at < self._relist_at:
            self._relist_at = at
            self._wakeup.wake()

    def _set_check(self, uid: PodUID, check: ScheduledCheck) -> None:
        self._checks[uid] = check
        self._wakeup.wake()
