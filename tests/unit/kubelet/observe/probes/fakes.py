"""Pods with probes, and a prober that answers what the test says."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from pykubelet.base import tracing
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes import ProbeDeps, ProbeManager, ProbeObservation, ProbeTarget, ProbeVerdict
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.probes import ContainerProbes, ProbeType, ProbeUpdate
from pykubelet.kubelet.types.runtime import ContainerState, ContainerStatus, PodRuntimeStatus, SandboxStatus
from pykubelet.models.core_v1 import Container, ExecAction, Pod, PodSpec, Probe
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry

OK = ProbeObservation(ProbeVerdict.SUCCESS)
BAD = ProbeObservation(ProbeVerdict.FAILURE, "bad")
REF = PodRef("default", "web", PodUID("u"))


def probe(*, period: int = 10, delay: int = 0, success: int = 1, failure: int = 3) -> Probe:
    return Probe(
        exec=ExecAction(command=("true",)),
        period_seconds=period,
        initial_delay_seconds=delay,
        success_threshold=success,
        failure_threshold=failure,
    )


def make_pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    uid: str = "u",
    host_network: bool = False,
) -> Pod:
    meta = ObjectMeta(name="web", namespace="default", uid=uid)
    return Pod(
        metadata=meta,
        spec=PodSpec(containers=containers, init_containers=init, host_network=host_network),
    )


def running(name: str, cid: str, started_at: Seconds) -> ContainerStatus:
    return ContainerStatus(
        ContainerID(cid), name, ContainerState.RUNNING, created_at=started_at - 0.1, started_at=started_at
    )


def exited(name: str, cid: str) -> ContainerStatus:
    return ContainerStatus(ContainerID(cid), name, ContainerState.EXITED)


def status(*containers: ContainerStatus, uid: str = "u", ips: tuple[str, ...] = ("10.0.0.9",)) -> PodRuntimeStatus:
    box = SandboxStatus(SandboxID("box"), ready=True, ips=ips)
    return PodRuntimeStatus(PodRef("default", "web", PodUID(uid)), (box,), containers)


@dataclass
class Node:
    """The probe manager, and everything around it."""

    clock: VirtualClock = field(default_factory=VirtualClock)
    answers: Mapping[ProbeType, Sequence[ProbeObservation]] = field(default_factory=dict)
    """A prober with results by type, the last of which is repeated; success for other types."""
    asked: list[tuple[Seconds, ProbeType, str]] = field(default_factory=list)
    """(seconds since the start, type, container id) of each probe."""
    targets: list[ProbeTarget] = field(default_factory=list)
    traces: list[dict[str, str]] = field(default_factory=list)
    """The headers of the trace in which each probe is made."""
    takes: Seconds = 0.0
    defect: Exception | None = None
    """Raised by liveness probes."""
    closed: bool = False
    updates: list[tuple[str, str, str]] = field(default_factory=list)
    recorded: list[tuple[str, str, str]] = field(default_factory=list)
    counted: list[tuple[ProbeType, str]] = field(default_factory=list)
    on_update: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()
        self._count: dict[ProbeType, int] = defaultdict(int)
        self.manager = ProbeManager(
            ProbeDeps(
                prober=self,
                on_change=self._changed,
                telemetry=telemetry(self.clock, Metrics(self), events=self),
                host_ips=lambda: ("192.0.2.1",),
            )
        )

    async def probe(self, target: ProbeTarget) -> ProbeObservation:
        if self.defect and target.probe_type is ProbeType.LIVENESS:
            raise self.defect
        self.asked.append((round(self.clock.monotonic() - self.began, 3), target.probe_type, target.container_id))
        self.targets.append(target)
        self.traces.append(dict(tracing.carrier()))
        if self.takes:
            await self.clock.sleep(self.takes)
        answers = self.answers.get(target.probe_type, (OK,))
        index = self._count[target.probe_type]
        self._count[target.probe_type] += 1
        return answers[min(index, len(answers) - 1)]

    async def close(self) -> None:
        self.closed = True

    def _changed(self, update: ProbeUpdate) -> None:
        assert update.uid == "u"
        self.updates.append((update.container_id, update.probe_type, update.result))
        self.on_update()

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        assert (pod, event_type) == (REF, "Warning")
        self.recorded.append((container, reason, message))

    def times(self, probe_type: ProbeType) -> list[Seconds]:
        """Times of the probes of that type, in seconds since the start."""
        return [at for at, each, _ in self.asked if each is probe_type]

    def results(self, cid: str, at: PodRuntimeStatus) -> ContainerProbes | None:
        return self.manager.results(at).get(ContainerID(cid))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.manager.run())
        await self.clock.settle()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@dataclass
class Metrics:
    """Counts for the node."""

    node: Node

    def probe(self, ref: PodRef, container: str, probe_type: ProbeType, result: str, seconds: Seconds) -> None:
        self.node.counted.append((probe_type, result))
