"""A runtime of a few lines for PLEG: tests change its pods and send its events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from pykubelet.base.errors import PykubeletError
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.pleg import Pleg, PlegConfig, PlegDeps
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerSummary,
    PodLifecycleEvent,
    RuntimePod,
    SandboxSummary,
)
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry


def container(cid: str, state: ContainerState = ContainerState.RUNNING) -> ContainerSummary:
    return ContainerSummary(ContainerID(cid), cid, state, SandboxID("s"))


def sandbox(sid: str, *, ready: bool = True) -> SandboxSummary:
    return SandboxSummary(SandboxID(sid), ready)


def pod(uid: str, *rows: ContainerSummary | SandboxSummary) -> RuntimePod:
    return RuntimePod(
        PodRef("default", f"pod-{uid}", PodUID(uid)),
        tuple(r for r in rows if isinstance(r, SandboxSummary)),
        tuple(r for r in rows if isinstance(r, ContainerSummary)),
    )


@dataclass
class Recorder:
    """Metrics and events, as they came."""

    intervals: list[Seconds] = field(default_factory=list)
    durations: list[Seconds] = field(default_factory=list)
    seen_at: list[Seconds] = field(default_factory=list)
    counts: tuple[int, Mapping[ContainerState, int]] = (0, {})
    stream_errors: int = 0

    def relist_interval(self, seconds: Seconds) -> None:
        self.intervals.append(seconds)

    def relist_duration(self, seconds: Seconds) -> None:
        self.durations.append(seconds)

    def pod_relist_duration(self, seconds: Seconds) -> None: ...

    def last_seen(self, unix_time: Seconds) -> None:
        self.seen_at.append(unix_time)

    def running(self, pods: int, containers: Mapping[ContainerState, int]) -> None:
        self.counts = (pods, containers)

    def stream_error(self) -> None:
        self.stream_errors += 1


class Runtime:
    """The runtime, and PLEG on it."""

    def __init__(self, *, stream_error: PykubeletError | None, config: PlegConfig | None = None) -> None:
        self.clock = VirtualClock()
        self.pods: dict[str, RuntimePod] = {}
        self.lists: list[Seconds] = []
        self.checks: list[str] = []
        self.error: Exception | None = None
        self.list_takes: Seconds = 0.0
        self.hold: asyncio.Event | None = None
        """Answers are made up when the call comes and given when this is set."""
        self.stream_error = stream_error
        """Error with which `watch` fails at once; None: it lasts."""
        self.streams = 0
        self._deliver: Callable[[RuntimeEvent], None] | None = None
        self._break = asyncio.Event()
        self.events: list[tuple[str, str, str]] = []
        self.times: list[Seconds] = []
        self.recoveries: list[Seconds] = []
        """Times at which pods could be listed again."""
        self.metrics = Recorder()
        self.pleg = Pleg(
            PlegDeps(
                list_pods=self.list_pods,
                list_pod=self.list_pod,
                watch_events=self.watch,
                on_event=self._take,
                on_recovered=self._recover,
                telemetry=telemetry(self.clock, self.metrics),
            ),
            config,
        )

    def _recover(self) -> None:
        self.recoveries.append(self.clock.monotonic())

    def _take(self, event: PodLifecycleEvent) -> None:
        self.events.append((event.uid, event.type.value.removeprefix("Container"), event.container_id or ""))
        self.times.append(self.clock.monotonic())

    def taken(self) -> list[tuple[str, str, str]]:
        """The events since the last call."""
        events, self.events, self.times = self.events, [], []
        return events

    async def list_pods(self) -> list[RuntimePod]:
        self.lists.append(self.clock.monotonic())
        answer = list(self.pods.values())
        await self._delay()
        return answer

    async def list_pod(self, uid: PodUID) -> RuntimePod | None:
        self.checks.append(uid)
        answer = self.pods.get(uid)
        await self._delay()
        return answer

    async def _delay(self) -> None:
        if self.list_takes:
            await self.clock.sleep(self.list_takes)
        if self.hold:
            await self.hold.wait()
        if self.error:
            raise self.error

    async def watch(self, deliver: Callable[[RuntimeEvent], None]) -> None:
        self.streams += 1
        if self.stream_error is None:
            self._deliver = deliver
            await self._break.wait()
            self._break.clear()
        assert self.stream_error is not None
        raise self.stream_error

    def break_stream(self, error: PykubeletError) -> None:
        self.stream_error = error
        self._break.set()

    def send(self, cid: str, kind: RuntimeEventKind, uid: str | None = None, *, seen: RuntimePod | None = None) -> None:
        assert self._deliver is not None
        uid = seen.uid if seen is not None else uid
        self._deliver(RuntimeEvent(cid, kind, self.clock.now(), None if uid is None else PodUID(uid), seen))

    def put(self, each: RuntimePod) -> None:
        self.pods[each.uid] = each

    def end(self, uid: str, cid: str) -> None:
        """A container ends by itself, without an event."""
        rows = tuple(replace(c, state=ContainerState.EXITED) if c.id == cid else c for c in self.pods[uid].containers)
        self.pods[uid] = replace(self.pods[uid], containers=rows)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """PLEG at work, after its first list."""
        task = asyncio.create_task(self.pleg.run())
        await self.clock.settle()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
