"""Times at which statuses are sent to the API server: progress is held back for a moment. In virtual time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from pykubelet.apiclient import ApiClient, ClusterConfig, PatchKind
from pykubelet.apiclient.resources import Target
from pykubelet.base.errors import Transient
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.report.status.plan.delivery import HOLD_SECONDS
from pykubelet.kubelet.report.status.status_patcher import PatcherDeps, StatusPatcher
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models import core_v1 as core
from pykubelet.models.codec import from_builtins
from pykubelet.models.scalars import KubeStruct
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.statuses import SettableStatuses
from pykubelet.testing.telemetry import telemetry
from tests.unit.kubelet.apitools import running
from tests.unit.kubelet.report.pods import pod, with_meta
from tests.unit.kubelet.report.status.build import RUNNING, STARTING, STOPPING, UNREADY, WITH_SANDBOX, Node

T = TypeVar("T", bound=KubeStruct)
POD = pod(static=False)
UID = ref_of(POD).uid


class Server(ApiClient):
    """Accepts every patch and records its time."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(ClusterConfig("http://localhost"), clock)
        self.clock, self.begun = clock, clock.monotonic()
        self.log: list[tuple[float, str]] = []
        self.away = False

    async def patch(self, target: Target[T], patch: object, kind: PatchKind = PatchKind.STRATEGIC) -> T:
        assert isinstance(patch, dict)
        self.note(f"{patch['status']['phase']} {patch['status']['podIP'] or '-'}")
        await asyncio.sleep(0)
        if self.away:
            raise Transient("unavailable")
        plain: dict[str, Any] = {"metadata": {"uid": UID, "resourceVersion": str(len(self.log))}}
        return from_builtins(plain | {"status": {"phase": patch["status"]["phase"]}}, target.kind)

    async def delete(self, target: Target[T], uid: str = "", grace_seconds: int | None = None) -> bool:
        self.note("DELETE")
        return True

    def note(self, what: str) -> None:
        self.log.append((round(self.clock.monotonic() - self.begun, 3), what))


@dataclass
class KnownPods:
    pods: dict[PodUID, core.Pod] = field(default_factory=lambda: {UID: POD})

    def counterpart(self, uid: PodUID) -> core.Pod | None:
        return self.pods.get(uid)


@dataclass
class Rig:
    clock: VirtualClock
    server: Server
    statuses: SettableStatuses
    patcher: StatusPatcher
    known: KnownPods

    async def set(self, status: core.PodStatus, after: float = 0.0) -> None:
        await self.clock.advance(after)
        self.statuses.set(POD, status)
        await self.clock.settle()


@asynccontextmanager
async def made() -> AsyncIterator[Rig]:
    clock, known = VirtualClock(), KnownPods()
    server, statuses = Server(clock), SettableStatuses(clock=clock, node=Node())
    metrics = KubeletMetrics(node_name="node-1", clock=clock)
    deps = PatcherDeps(client=server, statuses=statuses, pods=known, telemetry=telemetry(clock, metrics.node))
    patcher = StatusPatcher(deps)
    async with running(patcher.run()):
        await clock.settle()
        yield Rig(clock, server, statuses, patcher, known)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with made() as rig:
        yield rig


async def test_quick_start_is_sent_as_one_patch(rig: Rig) -> None:
    await rig.set(STARTING)
    await rig.set(WITH_SANDBOX, after=0.1)
    assert rig.server.log == []
    await rig.set(RUNNING, after=0.1)
    await rig.clock.advance(10)
    assert rig.server.log == [(0.2, "Running 10.1.0.1")]


async def test_slow_start_reports_progress_after_the_hold_time(rig: Rig) -> None:
    await rig.set(STARTING)
    await rig.set(WITH_SANDBOX, after=HOLD_SECONDS - 0.1)
    await rig.clock.advance(0.05)
    assert rig.server.log == []
    await rig.clock.advance(0.06)
    assert rig.server.log == [(HOLD_SECONDS, "Pending 10.1.0.1")]
    more = replace(WITH_SANDBOX, host_ip="10.0.0.9")
    await rig.set(more, after=5)
    await rig.clock.advance(10)
    assert rig.server.log[1:] == [(round(0.31 + 5 + HOLD_SECONDS, 3), "Pending 10.1.0.1")]


async def test_every_hold_lasts_the_full_time(rig: Rig) -> None:
    await rig.set(STARTING)
    await rig.set(RUNNING, after=0.2)
    await rig.set(STARTING)
    assert len(rig.server.log) == 2, "another phase"
    await rig.set(WITH_SANDBOX)
    await rig.clock.advance(HOLD_SECONDS - 0.01)
    assert len(rig.server.log) == 2
    await rig.clock.advance(0.02)
    assert len(rig.server.log) == 3


async def test_reverted_status_is_not_sent(rig: Rig) -> None:
    await rig.set(STARTING)
    await rig.clock.advance(1)
    await rig.set(WITH_SANDBOX)
    await rig.set(STARTING, after=0.1)
    await rig.clock.advance(10)
    assert rig.server.log == [(HOLD_SECONDS, "Pending -")]


async def test_quick_end_is_one_patch_and_the_deletion(rig: Rig) -> None:
    await rig.set(RUNNING)
    deleted = with_meta(POD, deletion_timestamp=datetime(2023, 1, 1, tzinfo=UTC))
    rig.known.pods[UID] = deleted
    await rig.set(STOPPING, after=1)
    await rig.clock.advance(HOLD_SECONDS / 2)
    rig.statuses.terminate(deleted)
    await rig.clock.advance(10)
    end = 1 + HOLD_SECONDS / 2
    assert rig.server.log == [(0.0, "Running 10.1.0.1"), (end, "Failed 10.1.0.1"), (end, "DELETE")]


async def test_slow_end_reports_progress_after_the_hold_time_and_readiness_at_once(rig: Rig) -> None:
    await rig.set(RUNNING)
    rig.known.pods[UID] = with_meta(POD, deletion_timestamp=datetime(2023, 1, 1, tzinfo=UTC))
    await rig.set(STOPPING, after=1)
    await rig.clock.advance(1)
    await rig.set(UNREADY)
    await rig.clock.advance(10)
    assert rig.server.log[1:] == [(1 + HOLD_SECONDS, "Running 10.1.0.1"), (2, "Running 10.1.0.1")]


async def test_forgotten_pod_gets_no_patch(rig: Rig) -> None:
    await rig.set(STARTING)
    rig.statuses.remove(UID)
    await rig.clock.advance(10)
    assert rig.server.log == []


async def test_held_status_is_sent_with_the_next_retry(rig: Rig) -> None:
    rig.server.away = True
    await rig.set(STARTING)
    await rig.clock.advance(HOLD_SECONDS + 0.01)
    assert len(rig.server.log) == 1
    rig.server.away = False
    await rig.clock.advance(1)
    assert len(rig.server.log) == 2


async def test_many_starting_pods_send_little_progress() -> None:
    async with made() as rig:
        pods = [with_meta(POD, name=f"pod-{number}", uid=f"uid-{number}") for number in range(30)]
        rig.known.pods |= {ref_of(each).uid: each for each in pods}
        for each in pods:
            rig.statuses.set(each, STARTING)
        await rig.clock.advance(HOLD_SECONDS + 0.01)
        assert len(rig.server.log) == 5
        await rig.clock.advance(1.2)
        assert 10 <= len(rig.server.log) <= 12
        for each in pods:
            rig.statuses.set(each, RUNNING)
        await rig.clock.settle()
        assert len([what for _, what in rig.server.log if what.startswith("Running")]) == 30
        later = [with_meta(POD, name=f"late-{number}", uid=f"late-{number}") for number in range(60)]
        rig.known.pods |= {ref_of(each).uid: each for each in later}
        before = len(rig.server.log)
        for each in later:
            rig.statuses.set(each, STARTING)
        await rig.clock.advance(5.5)
        assert len(rig.server.log) == before + 60


async def test_held_statuses_are_sent_when_the_agent_stops() -> None:
    async with made() as rig:
        await rig.set(STARTING)
    assert rig.server.log == [(0.0, "Pending -")]


async def test_agent_stops_although_the_api_server_is_unavailable() -> None:
    async with made() as rig:
        rig.server.away = True
        await rig.set(STARTING)
    assert rig.server.log == [(0.0, "Pending -")]
