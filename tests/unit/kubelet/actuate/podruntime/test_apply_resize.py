"""In-place resize: order of steps, allocation store, interrupted and rejected resizes."""

import asyncio
import json
from collections.abc import Mapping

import pytest
from grpc import StatusCode

from pykubelet.base.units import Bytes, MilliCPU
from pykubelet.kubelet.actuate.podruntime.plan.resize import PodStep, plan_resize, pod_steps
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.kubelet.types.outcome import SyncAction
from pykubelet.kubelet.types.resources.resize import container_size, sized
from pykubelet.kubelet.types.resources.size import Size
from pykubelet.linux.cgroups import CgroupResources
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.fake_cri import Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import EXITED, UID, Fields, at, pod_of, sidecar, state_of
from tests.unit.kubelet.actuate.podruntime.world import World

BOX = SandboxID("s1")


def app(cpu: str, memory: str, name: str = "app", *, policy: object = ()) -> Fields:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, "resizePolicy": policy}


def restarts(resource: str) -> list[Fields]:
    return [{"resourceName": resource, "restartPolicy": "RestartContainer"}]


def made(*containers: Fields, generation: int = 1) -> Pod:
    return pod_of(containers, meta={"generation": generation})


def size(cpu: int, memory: int) -> Size:
    return Size(MilliCPU(cpu), MilliCPU(cpu), Bytes(memory << 20), Bytes(memory << 20))


SMALL, LARGE = made(app("100m", "64Mi")), made(app("200m", "128Mi"), generation=2)


# -- deciding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "wanted", "requests", "order"),
    [
        (1, 2, (1, 2), ["limit", "request", "containers"]),
        (2, 1, (2, 1), ["containers", "request", "limit"]),
        (2, 1, (1, 2), ["request", "containers", "limit"]),
        (1, -1, (0, 0), ["limit", "containers"]),
        (-1, 1, (0, 0), ["containers", "limit"]),
        (None, 5, (0, 0), ["containers"]),
        (5, 5, (0, 0), ["containers"]),
    ],
)
def test_a_pod_grows_before_its_containers_and_shrinks_after_them(
    now: int | None, wanted: int | None, requests: tuple[int, int], order: list[str]
) -> None:
    assert pod_steps(now, wanted, *requests) == tuple(PodStep(step) for step in order)


def test_resize_plan_has_shrinking_containers_first() -> None:
    pod = made(app("2", "2Gi", "grows"), app("1", "1Gi", "shrinks"), app("1", "1Gi", "stays"))
    applied = {"grows": size(1000, 1024), "shrinks": size(2000, 2048), "stays": size(1000, 1024)}
    plan = plan_resize(pod, state_of(pod, at("grows"), at("shrinks"), at("stays")), BOX, applied, ())
    assert [c.container.name for c in plan.memory] == ["shrinks", "grows"]
    assert [c.container.name for c in plan.cpu] == ["shrinks", "grows"]
    assert [c.memory_limit_falls for c in plan.memory] == [True, False]


@pytest.mark.parametrize(
    ("policy", "applied", "restarted"),
    [
        ("memory", size(200, 64), True),
        ("memory", size(100, 128), False),
        ("cpu", size(100, 128), True),
        ("cpu", size(200, 128), False),
    ],
)
def test_resize_policy_of_the_changed_resource_decides_on_restart(policy: str, applied: Size, restarted: bool) -> None:
    pod = made(app("200m", "128Mi", policy=restarts(policy)))
    plan = plan_resize(pod, state_of(pod, at("app")), BOX, {"app": applied}, ())
    assert [kill.message for kill in plan.restart] == ["Container app resize requires restart"] * restarted
    assert [c.name for c in plan.start] == ["app"] * restarted


def test_resize_plan_has_only_running_containers() -> None:
    pod = pod_of([app("1", "1Gi"), app("1", "1Gi", "gone"), app("1", "1Gi", "busy")], [sidecar("proxy"), "setup"])
    names = ("app", "gone", "busy", "proxy", "setup")
    applied = {name: size(500, 512) for name in names}
    status = state_of(pod, at("app"), at("gone", state=EXITED), at("busy"), at("proxy"), at("setup"))
    plan = plan_resize(pod, status, BOX, applied, {at("busy").id})
    assert [c.container.name for c in plan.memory] == ["proxy", "setup", "app"]


def test_the_pods_own_limit_holds_for_containers_without_one() -> None:
    pod = pod_of([{"name": "app", "resources": {"requests": {"cpu": "1"}}}], resources={"limits": {"memory": "1Gi"}})
    container = pod.spec.containers[0]
    assert container_size(pod, container) == Size(MilliCPU(1000), memory_limit=Bytes(1 << 30))
    same = sized(container, container_size(pod, container))
    assert same.resources is not None
    assert (same.resources.requests, same.resources.limits) == ({"cpu": "1"}, {"memory": "1Gi"})


# -- doing ------------------------------------------------------------------------------------------------------------


async def start(world: World, pod: Pod = SMALL) -> None:
    world.runtime.allocations.set(pod)
    await world.settle(pod)
    world.resources.limits = world.resources.wanted_limits(pod)
    world.events.seen.clear()


def limits_of(world: World, name: str = "app") -> tuple[int, int]:
    container = next(c for c in world.cri.containers if c.name == name and c.running)
    linux = container.config.linux.resources
    return linux.cpu_quota, linux.memory_limit_in_bytes >> 20


async def test_a_running_container_gets_its_new_size(world: World) -> None:
    await start(world)
    assert world.runtime.allocations.progress(UID) is None
    world.runtime.allocations.set(LARGE)
    progress = world.runtime.allocations.progress(UID)
    assert progress is not None and progress.generation == 2
    assert (await world.status(LARGE)).containers[0].size == size(100, 64)
    outcome = await world.sync(LARGE)
    assert outcome.changed and outcome.ok
    assert limits_of(world) == (20_000, 128)
    assert world.resources.written == [
        CgroupResources(memory_max=Bytes(128 << 20)),
        CgroupResources(cpu_quota_us=20_000, cpu_period_us=100_000),
        CgroupResources(cpu_shares=204),
    ]
    assert world.runtime.allocations.progress(UID) is None
    assert [line.split(":")[0] for line in world.events.seen] == ["ResizeCompleted"]
    assert world.measured == ["resized done"]
    assert json.loads(world.events.seen[0].split(": ", 2)[2])["generation"] == 2
    assert not (await world.sync(LARGE)).changed
    assert (await world.status(LARGE)).containers[0].restart_count == 0


async def test_resize_is_not_completed_by_a_worker_with_an_old_pod(world: World) -> None:
    await start(world)
    world.runtime.allocations.set(LARGE)
    await world.sync(SMALL)
    assert limits_of(world) == (20_000, 128)


async def test_resize_overtaken_by_the_next_is_not_completed(world: World) -> None:
    await start(world)
    world.runtime.allocations.set(LARGE)
    world.cri.inject(Fault("UpdateContainerResources", delay=1.0, times=1))
    under_way = asyncio.ensure_future(world.sync(LARGE))
    await world.clock.advance(0.5)
    largest = made(app("300m", "256Mi"), generation=3)
    world.runtime.allocations.set(largest)
    await world.clock.advance(5)
    await under_way
    progress = world.runtime.allocations.progress(UID)
    assert progress is not None and progress.generation == 3
    assert not any(line.startswith("ResizeCompleted") for line in world.events.seen)
    await world.settle(largest)
    assert limits_of(world) == (30_000, 256)
    assert world.runtime.allocations.progress(UID) is None


async def test_resize_policy_restart_container_restarts_it(world: World) -> None:
    small, large = (
        made(app("100m", mem, policy=restarts("memory")), generation=n) for n, mem in ((1, "64Mi"), (2, "1Gi"))
    )
    await start(world, small)
    world.runtime.allocations.set(large)
    await world.settle(large)
    assert limits_of(world) == (10_000, 1024)
    (now,) = (await world.status(large)).running
    assert now.restart_count == 1
    assert "Killing[app]: Container app resize requires restart" in world.events.seen
    assert world.events.seen[-1].startswith("ResizeCompleted")


async def test_interrupted_resize_is_continued_by_the_next_agent(world: World) -> None:
    await start(world)
    world.runtime.allocations.set(LARGE)
    world.cri.inject(Fault("UpdateContainerResources", code=StatusCode.UNKNOWN, details="busy", times=1))
    outcome = await world.sync(LARGE)
    (failure,) = outcome.failures
    assert (failure.action, failure.reason) == (SyncAction.RESIZE, "ResizePodInPlaceError")
    assert [line.split(":")[0] for line in world.events.seen] == ["ResizeError"]
    assert failure.message == "busy"
    world.restart()
    assert world.runtime.allocations.get(UID) is None
    await world.runtime.allocations.load([UID])
    allocation = world.runtime.allocations.get(UID)
    assert allocation is not None and allocation.generation == 2
    assert world.runtime.allocations.applied(UID)["app"].memory_limit == 64 << 20
    await world.settle(LARGE)
    assert limits_of(world) == (20_000, 128)
    assert world.runtime.allocations.progress(UID) is None


async def test_memory_limit_below_usage_is_rejected(world: World) -> None:
    await start(world, LARGE)
    world.runtime.allocations.set(SMALL)
    world.resources.memory = 100 << 20
    world.cri.containers[0].script = Script(memory_bytes=90 << 20)
    outcome = await world.sync(SMALL)
    assert [f.message for f in outcome.failures] == [
        "cannot decrease memory limits: "
        "[attempting to set pod memory limit (67108864) below current usage (104857600), "
        'attempting to set container "app" memory limit (67108864) below current usage (94371840)]'
    ]
    assert world.resources.written == [] and limits_of(world) == (20_000, 128)
    progress = world.runtime.allocations.progress(UID)
    assert progress is not None and progress.error == outcome.failures[0].message
    assert world.measured == ["resized failed"]
    await world.sync(SMALL)
    assert len(world.events.seen) == 1
    world.resources.memory = 1 << 20
    world.cri.containers[0].script = Script(memory_bytes=1 << 20)
    await world.settle(SMALL)
    assert limits_of(world) == (10_000, 64)


async def test_exited_container_is_started_with_its_new_size(world: World) -> None:
    await start(world)
    world.cri.end_container(world.cri.container("ns/web/app"), 1)
    world.runtime.allocations.set(LARGE)
    await world.settle(LARGE)
    assert limits_of(world) == (20_000, 128)
    assert world.runtime.allocations.progress(UID) is None
    assert world.resources.written[0] == CgroupResources(memory_max=Bytes(128 << 20))


async def test_resize_reverted_before_it_was_applied_changes_nothing(world: World) -> None:
    await start(world)
    world.runtime.allocations.set(LARGE)
    world.runtime.allocations.set(SMALL)
    await world.settle(SMALL)
    assert world.runtime.allocations.progress(UID) is None and world.resources.written == []
    assert limits_of(world) == (10_000, 64)


# -- the record -------------------------------------------------------------------------------------------------------


async def test_allocation_is_saved_before_the_first_start_and_removed_with_the_pod(world: World) -> None:
    await start(world)
    file = world.files.resources(UID)
    assert json.loads(file.read_text())["containers"]["app"]["limits"] == {"cpu": "100m", "memory": "64Mi"}
    before = file.stat().st_mtime_ns
    await world.settle(SMALL)
    assert file.stat().st_mtime_ns == before
    await world.kill(SMALL)
    await world.runtime.remove_pod(state_of(SMALL).ref)
    assert world.runtime.allocations.get(UID) is None


async def test_static_pod_has_no_allocation_record(world: World) -> None:
    annotations: Mapping[str, str] = {"kubernetes.io/config.source": "file"}
    pod = pod_of(meta={"annotations": annotations})
    world.runtime.allocations.set(pod)
    await world.settle(pod)
    assert not world.files.resources(UID).exists()


@pytest.mark.parametrize("content", [b"", b"{", b'{"containers": 7}', b"x" * (2 << 20)])
async def test_unreadable_allocation_record_counts_as_missing(world: World, content: bytes) -> None:
    world.files.prepare(UID)
    world.files.resources(UID).write_bytes(content)
    await world.runtime.allocations.load([UID])
    assert world.runtime.allocations.get(UID) is None
