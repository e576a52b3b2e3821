"""`Pleg`: follows the runtime's events where it has some, and lists its pods as the net below.

Three ways to see a change, from the fastest to the surest:

* an event of the runtime, which is applied to the last known list at once;
* without events, checks of single pods in transition: close at first, rarer as time passes;
* the list of all pods, every second without events, every ten with them, at once when an event cannot be placed.

Lists and checks never overlap: there is one at work and at most one wanted. A runtime that is down or hangs
delays them and turns PLEG unhealthy, but does not end it.
"""

import asyncio
import logging
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError, Unsupported
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pleg import decide
from pykubelet.kubelet.observe.pleg.decide import Check
from pykubelet.kubelet.observe.pleg.ports import PlegDeps
from pykubelet.kubelet.observe.pleg.types import PlegConfig
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import PodEventType, PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind

_log = logging.getLogger(__name__)


class Pleg:
    """See the module. Everything but `run` returns at once; to be called from the loop's thread."""

    def __init__(self, deps: PlegDeps, config: PlegConfig | None = None) -> None:
        self._deps = deps
        self._config = config or PlegConfig()
        self._looks = Guard("pleg.looks", deps.clock.monotonic)
        self._guard = Guard("pleg.pods", deps.clock.monotonic)
        self._news = Guard("pleg.events", deps.clock.monotonic)
        self._pods: dict[PodUID, RuntimePod] = {}
        self._owner: dict[str, PodUID] = {}
        """Pod of each known container and sandbox."""
        self._checks: dict[PodUID, Check] = {}
        self._during_look: list[RuntimeEvent] | None = None
        """Events since the look at work began, whose answer may be older than they are; None: no look at work."""
        self._relist_at: Seconds = -math.inf
        self._free_at: Seconds = -math.inf
        self._last_success: Seconds | None = None
        self._runtime_down = False
        self._stream_since: Seconds | None = None
        self._tells_pods = False
        """The runtime's events say how the whole pod is, so that nothing more needs to be asked."""
        self._sooner = asyncio.Event()

    @property
    def pods(self) -> Mapping[PodUID, RuntimePod]:
        """The last known pods of the runtime; empty until the first list."""
        return MappingProxyType(self._pods)

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_for_ever(), name="pleg-relist")
            group.create_task(self._watch_for_ever(), name="pleg-events")

    def poke(self, uid: PodUID) -> None:
        """The agent has changed something of the pod, or expects a change soon: look closely for a while."""
        if self._trusts_events():
            if not self._tells_pods:
                self._relist_by(self._now() + self._config.batch_delay)
        else:
            self._set_check(uid, decide.first_check(self._now(), self._config))

    def healthy(self) -> str | None:
        """None, or why PLEG cannot be relied on, in the reference's words."""
        if self._last_success is None:
            return "pleg has yet to be successful"
        elapsed = self._now() - self._last_success
        if elapsed <= self._config.threshold:
            return None
        threshold = decide.duration_text(self._config.threshold)
        return f"pleg was last seen active {decide.duration_text(elapsed)} ago; threshold is {threshold}"

    # -- the runtime's events

    async def _watch_for_ever(self) -> None:
        config = self._config
        backoff = Backoff(config.reconnect_first, config.reconnect_longest, jitter=0.1)
        while True:
            self._stream_since, self._tells_pods = self._now(), False
            delay = config.reconnect_longest
            with self._looks.item("event stream"):
                delay = await self._watch(backoff)
            if self._trusts_events():
                self._relist_by(self._now())
            self._stream_since = None
            await self._deps.clock.sleep(delay)

    async def _watch(self, backoff: Backoff) -> Seconds:
        """Follow the stream until it ends; the seconds after which to try again."""
        try:
            await self._deps.watch_events(self._on_runtime_event)
            return backoff.next("stream", self._now())
        except Unsupported as error:
            _log.info("the runtime sends no events, its pods are listed instead", extra={"error": str(error)})
            return self._config.unsupported_retry
        except PykubeletError as error:
            delay = backoff.next("stream", self._now())
            # A stream that never worked is no news; the lists tell of a runtime that is down.
            level = logging.WARNING if self._trusts_events() else logging.DEBUG
            _log.log(level, "the runtime's event stream broke", extra={"error": str(error), "delay_s": delay})
            self._deps.metrics.stream_error()
            return delay

    def _trusts_events(self) -> bool:
        since = self._stream_since
        return since is not None and self._now() - since >= self._config.trust_after

    def _on_runtime_event(self, event: RuntimeEvent) -> None:
        if self._during_look is not None:
            self._during_look.append(event)
        uid = self._owner.get(event.container_id)
        if event.kind is not RuntimeEventKind.DELETED:
            self._tells_pods = event.seen is not None
            uid = event.seen.uid if event.seen is not None else uid
        if uid is not None:
            self._accept(uid, decide.after(self._pods.get(uid), event))
        elif event.kind in (RuntimeEventKind.DELETED, RuntimeEventKind.OOM):
            pass  # What was not known need not be forgotten, and an OOM kill alone ends no container.
        elif event.pod_uid is not None:
            self._set_check(event.pod_uid, Check(self._now(), self._now()))
        else:
            # Who started a container looks after it; its end is news to everybody.
            urgent = event.kind is RuntimeEventKind.STOPPED
            self._relist_by(self._now() + (0 if urgent else self._config.batch_delay))

    # -- looks: lists of all pods and checks of one

    async def _look_for_ever(self) -> None:
        while True:
            self._sooner.clear()
            now = self._now()
            wanted = min((self._relist_at, *(check.at for check in self._checks.values())))
            wait = max(wanted, self._free_at) - now
            if wait > 0:
                await self._sleep(wait)
                continue
            due = [uid for uid, check in self._checks.items() if check.at <= now]
            if self._relist_at <= now or len(due) > self._config.single_checks:
                await self._relist()
            else:
                for uid in due:
                    with self._looks.item(uid) as attempt:
                        await self._look_at(uid)
                    if attempt.error is not None:
                        self._checks.pop(uid, None)  # the list of all pods shows it
            pause = (self._now() - now) * (1 / self._config.busy_share - 1)
            self._free_at = self._now() + min(pause, self._config.relist_period)

    async def _relist(self) -> None:
        started, config, metrics = self._now(), self._config, self._deps.metrics
        self._relist_at = started + (config.relist_with_events if self._trusts_events() else config.relist_period)
        if self._last_success is not None:
            metrics.relist_interval(started - self._last_success)
        self._during_look = []
        try:
            listed = await self._deps.list_pods()
        except PykubeletError as error:
            self._note_failure(error)
            self._relist_at = min(self._relist_at, started + config.relist_period)
        else:
            self._accept_all(listed)
            self._note_success(started)
        finally:
            self._during_look = None
            metrics.relist_duration(self._now() - started)
        self._plan_checks([uid for uid, check in self._checks.items() if check.at <= started])

    async def _look_at(self, uid: PodUID) -> None:
        started = self._now()
        self._during_look = []
        try:
            pod = await self._deps.list_pod(uid)
        except PykubeletError as error:
            # The list of all pods will tell whether the runtime is there.
            _log.debug("check of a pod failed", extra={"uid": uid, "error": str(error)})
        else:
            self._accept(uid, self._caught_up(uid, pod))
        finally:
            self._during_look = None
            self._deps.metrics.pod_relist_duration(self._now() - started)
        if (check := self._checks.get(uid)) and check.at <= started:
            self._plan_checks([uid])

    def _plan_checks(self, checked: Iterable[PodUID]) -> None:
        for uid in checked:
            following = decide.next_check(self._checks.pop(uid), self._now(), self._config)
            if following is not None and not self._trusts_events():
                self._checks[uid] = following

    def _note_failure(self, error: PykubeletError) -> None:
        if not self._runtime_down:
            _log.warning("cannot list the runtime's pods, retrying every second", extra={"error": str(error)})
        self._runtime_down = True

    def _note_success(self, started: Seconds) -> None:
        if self._runtime_down:
            _log.info("the runtime's pods can be listed again")
            self._deps.on_recovered()
        self._runtime_down = False
        self._last_success = started
        self._deps.metrics.last_seen(self._deps.clock.now() - (self._now() - started))
        self._deps.metrics.running(*decide.count_running(self._pods))

    # -- what was seen

    def _caught_up(self, uid: PodUID, pod: RuntimePod | None) -> RuntimePod | None:
        """The pod of an answer, with the events that came while it was on its way."""
        for event in self._during_look or ():
            if event.pod_uid in (None, uid):
                pod = decide.after(pod, event)
        return pod

    def _accept_all(self, listed: Iterable[RuntimePod]) -> None:
        answer = {pod.uid: pod for pod in listed}
        uids = answer.keys() | {event.seen.uid for event in self._during_look or () if event.seen is not None}
        for uid in [*(self._pods.keys() - uids), *sorted(uids)]:
            with self._guard.item(uid):
                pod = self._caught_up(uid, answer.get(uid))
                if pod != self._pods.get(uid):
                    self._accept(uid, pod)

    def _accept(self, uid: PodUID, pod: RuntimePod | None) -> None:
        old = self._pods.pop(uid, None)
        events = decide.diff_pod(uid, old, pod)
        for each in decide.ids(old) if old is not None else ():
            self._owner.pop(each, None)
        if pod is not None and (known := decide.ids(pod)):
            self._pods[uid] = pod
            self._owner.update(dict.fromkeys(known, uid))
        self._publish(events)

    def _publish(self, events: Iterable[PodLifecycleEvent]) -> None:
        watch_closely = self._last_success is not None and not self._trusts_events()
        for event in events:
            # As in the reference: nobody acts on a container that was only created.
            if event.type is PodEventType.CONTAINER_CHANGED:
                continue
            with self._news.item(event.uid):
                self._deps.on_event(event)
            pod = self._pods.get(event.uid)
            if watch_closely and pod is not None and pod.is_running:
                self._set_check(event.uid, decide.first_check(self._now(), self._config))

    # -- time

    def _now(self) -> Seconds:
        return self._deps.clock.monotonic()

    def _relist_by(self, at: Seconds) -> None:
        if at < self._relist_at:
            self._relist_at = at
            self._sooner.set()

    def _set_check(self, uid: PodUID, check: Check) -> None:
        self._checks[uid] = check
        self._sooner.set()

    async def _sleep(self, seconds: Seconds) -> None:
        """Sleep that long, or until an earlier look is wanted."""
        async with asyncio.TaskGroup() as group:
            sleeper = group.create_task(self._deps.clock.sleep(seconds), name="pleg-sleep")
            watcher = group.create_task(self._sooner.wait(), name="pleg-sooner")
            await asyncio.wait((sleeper, watcher), return_when=asyncio.FIRST_COMPLETED)
            sleeper.cancel()
            watcher.cancel()
