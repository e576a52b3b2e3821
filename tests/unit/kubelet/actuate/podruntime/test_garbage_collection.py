"""Garbage collection of containers, sandboxes and logs."""

import errno
from pathlib import Path

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.podruntime.garbage_collection import Collector
from pykubelet.kubelet.actuate.podruntime.log_directories import LogFiles
from pykubelet.kubelet.actuate.podruntime.log_links import LogLinks
from pykubelet.kubelet.actuate.podruntime.plan.container_ages import ContainerAges
from pykubelet.kubelet.actuate.podruntime.plan.removals import ContainerGcPolicy, garbage_containers, garbage_sandboxes
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID, SandboxID, ref_of
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerSummary,
    RuntimePod,
    SandboxSummary,
)
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import CREATED, EXITED, RUNNING, UNKNOWN, pod_of
from tests.unit.kubelet.actuate.podruntime.world import World

NOW = 1000.0


def row(name: str, created: float, state: ContainerState = EXITED, sandbox: str = "s") -> ContainerSummary:
    return ContainerSummary(ContainerID(f"{name}@{created:g}"), name, state, SandboxID(sandbox), created_at=created)


def runtime_pod(
    uid: str, rows: list[ContainerSummary], boxes: tuple[SandboxSummary, ...] = (SandboxSummary(SandboxID("s"), True),)
) -> RuntimePod:
    rows.sort(key=lambda c: -c.created_at)
    return RuntimePod(PodRef("ns", uid, PodUID(uid)), boxes, tuple(rows))


def picked(pods: list[RuntimePod], policy: ContainerGcPolicy | None = None, gone: str = "") -> str:
    ages = ContainerAges()
    ages.look((each for pod in pods for each in pod.containers), 0.0, NOW)
    garbage = garbage_containers(pods, policy or ContainerGcPolicy(), lambda uid: uid in gone.split(), ages.age)
    return " ".join(sorted(c.id for c in garbage))


@pytest.mark.parametrize(
    ("rows", "policy", "gone", "garbage"),
    [
        ([row("a", 1, RUNNING)], None, "p", ""),
        ([row("a", 1), row("a", 2), row("a", 3, RUNNING)], None, "", "a@1"),
        ([row("a", 1), row("a", 2), row("b", 1)], None, "", "a@1"),
        ([row("a", 1), row("a", 2), row("b", 1)], None, "p", "a@1 a@2 b@1"),
        ([row("a", 1), row("a", 2, CREATED)], None, "", "a@1"),
        ([row("a", 1, UNKNOWN), row("a", 2)], None, "", "a@1"),
        ([row("a", 1), row("a", 2), row("a", 3)], ContainerGcPolicy(max_per_container=0), "", "a@1 a@2 a@3"),
        ([row("a", 1), row("a", 2), row("a", 3)], ContainerGcPolicy(max_per_container=2), "", "a@1"),
        ([row("a", 1), row("a", 2), row("a", 3)], ContainerGcPolicy(max_per_container=-1), "", ""),
        ([row("a", 1), row("a", 950), row("a", 999)], ContainerGcPolicy(min_age=60, max_per_container=0), "", "a@1"),
        ([row("a", 950), row("a", 999)], ContainerGcPolicy(min_age=60), "p", ""),
        ([row("a", 1), row("b", 2), row("c", 3)], ContainerGcPolicy(max_total=2), "", "a@1"),
        ([row("a", 1), row("b", 2), row("c", 3)], ContainerGcPolicy(max_total=0), "", "a@1 b@2 c@3"),
        (
            [row("a", 1), row("a", 2), row("a", 5), row("b", 3)],
            ContainerGcPolicy(max_per_container=-1, max_total=2),
            "",
            "a@1 a@2",
        ),
        ([], ContainerGcPolicy(max_total=0), "", ""),
    ],
)
def test_garbage_containers_are_old_ends_beyond_the_policy(
    rows: list[ContainerSummary], policy: ContainerGcPolicy | None, gone: str, garbage: str
) -> None:
    assert picked([runtime_pod("p", rows)], policy, gone) == garbage


def test_gc_does_not_mix_containers_of_two_pods() -> None:
    assert picked([runtime_pod("p", [row("a", 1)]), runtime_pod("q", [row("a", 2)])]) == ""
    both = [runtime_pod("p", [row("a", 1), row("a", 2)]), runtime_pod("q", [row("a", 3), row("a", 4)])]
    assert picked(both, ContainerGcPolicy(max_per_container=-1, max_total=3)) == "a@1 a@3"


def box(name: str, ready: bool = False) -> SandboxSummary:
    return SandboxSummary(SandboxID(name), ready)


@pytest.mark.parametrize(
    ("boxes", "rows", "removed", "gone", "garbage"),
    [
        ((box("n"),), [], (), False, []),
        ((box("n"),), [], (), True, ["n"]),
        ((box("n", True),), [], (), True, []),
        ((box("n", True), box("o")), [], (), False, ["o"]),
        ((box("n"), box("o"), box("p")), [row("a", 1, EXITED, "o")], (), False, ["p"]),
        ((box("n"), box("o"), box("p")), [row("a", 1, EXITED, "o")], ("a@1",), False, ["o", "p"]),
        ((box("n"), box("o", True)), [], (), False, []),
        ((box("n"),), [row("a", 1, RUNNING, "n")], (), True, []),
    ],
)
def test_garbage_sandboxes_are_old_and_without_containers(
    boxes: tuple[SandboxSummary, ...],
    rows: list[ContainerSummary],
    removed: tuple[str, ...],
    gone: bool,
    garbage: list[str],
) -> None:
    pods = [runtime_pod("p", rows, boxes)]
    found = garbage_sandboxes(pods, {ContainerID(r) for r in removed}, lambda _: gone)
    assert [s.id for s in found] == garbage


def links(world: World) -> list[str]:
    return sorted(p.name for p in Path(world.config.container_logs_dir).iterdir())


async def crash(world: World, pod: Pod, times: int) -> None:
    """Let the pod's containers be restarted so often."""
    for _ in range(times):
        for container in world.cri.containers:
            world.cri.end_container(container, 1)
        await world.clock.advance(301)
        await world.settle(pod)


async def test_gc_keeps_one_exited_attempt_with_its_log(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    await crash(world, pod, 3)
    logs = world.runtime_logs(pod) / "app"
    (logs / "1.log.20260101-000000.gz").touch()
    await world.runtime.gc(lambda: {ref_of(pod).uid})
    assert [c.config.metadata.attempt for c in world.cri.containers] == [2, 3]
    assert sorted(p.name for p in logs.iterdir()) == ["2.log", "3.log"]
    assert links(world) == sorted(f"web_ns_app-{c.id}.log" for c in world.cri.containers)
    assert not (await world.sync(pod)).changed


async def test_gc_keeps_one_exited_attempt_and_the_logs_of_each_pod_while_pods_are_unknown(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    await crash(world, pod, 3)
    await world.runtime.gc(None)
    assert [c.config.metadata.attempt for c in world.cri.containers] == [2, 3]
    assert sorted(p.name for p in (world.runtime_logs(pod) / "app").iterdir()) == ["2.log", "3.log"]


async def test_gc_keeps_ended_pods_unless_disk_pressure(world: World) -> None:
    world.cri.script(Script(exit_after=0))
    pod = pod_of(restartPolicy="Never")
    await world.settle(pod)
    uid = ref_of(pod).uid
    await world.runtime.gc(lambda: {uid})
    assert len(world.cri.containers) == 1
    await world.runtime.gc(lambda: {uid}, ended=lambda: {uid})
    assert world.cri.containers == []
    assert world.runtime_logs(pod).exists()


async def test_gc_keeps_dead_containers_of_a_pod_that_starts_again_during_the_round(world: World) -> None:
    """The ended pods are read after the runtime: a container in the list may be one of the pod's next life."""
    world.cri.script(Script(exit_after=0))
    pod = pod_of(restartPolicy="Never")
    await world.settle(pod)
    uid = ref_of(pod).uid

    def ended() -> set[PodUID]:
        return set() if "ListContainers" in [r.method for r in world.cri.log] else {uid}

    world.cri.log.clear()
    await world.runtime.gc(lambda: {uid}, ended=ended)
    assert len(world.cri.containers) == 1


async def test_gc_removes_everything_of_a_removed_pod(world: World) -> None:
    pod = pod_of(("a", "b"))
    await world.settle(pod)
    await world.kill(pod)
    await world.runtime.gc(frozenset)
    assert world.cri.containers == []
    assert world.cri.sandboxes == []
    assert links(world) == []
    assert not world.runtime_logs(pod).exists()


async def test_gc_keeps_running_containers(world: World) -> None:
    """Even if no source wants the pod: its worker stops it in order."""
    pod = pod_of()
    await world.settle(pod)
    await world.runtime.gc(frozenset)
    assert world.running() == ["app"]
    assert world.cri.sandboxes[0].ready


async def test_gc_keeps_a_pod_added_during_the_round(world: World) -> None:
    """The wanted pods are read after the runtime: a pod in the list is known by then."""
    world.cri.script(Script(exit_after=0))
    pod = pod_of(restartPolicy="Never")
    wanted: set[PodUID] = set()
    await world.settle(pod)

    def keep() -> set[PodUID]:
        assert "ListContainers" in [r.method for r in world.cri.log]
        wanted.add(ref_of(pod).uid)
        return wanted

    world.cri.log.clear()
    await world.runtime.gc(keep)
    assert len(world.cri.containers) == 1
    assert world.runtime_logs(pod).exists()


async def test_gc_removes_dead_log_links_and_keeps_other_files(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    directory = Path(world.config.container_logs_dir)
    (directory / "web_ns_app-0123456789abcdef.log").symlink_to("/nowhere/x/0.log")
    (directory / "mine.txt").write_text("keep me")
    (directory / "mine.log").write_text("keep me")
    log = world.runtime_logs(pod) / "app" / "0.log"
    log.rename(log.with_suffix(".rotated"))
    await world.runtime.gc(lambda: {ref_of(pod).uid})
    assert links(world) == ["mine.log", "mine.txt", f"web_ns_app-{world.cri.containers[0].id}.log"]


async def test_dead_link_of_a_container_that_has_ended_is_removed_within_two_rounds(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    await world.runtime.gc(lambda: {ref_of(pod).uid})
    (link,) = links(world)
    (world.runtime_logs(pod) / "app" / "0.log").unlink()
    world.cri.end_container(world.cri.containers[0], 1)
    for _ in range(2):
        assert links(world) == [link]
        await world.runtime.gc(lambda: {ref_of(pod).uid})
    assert links(world) == []


async def test_gc_retries_a_container_that_cannot_be_removed(world: World) -> None:
    pod = pod_of(("a", "b"))
    await world.settle(pod)
    await world.kill(pod)
    fault = world.cri.inject(Fault("RemoveContainer", target="ns/web/a", code=StatusCode.UNKNOWN))
    await world.runtime.gc(frozenset)
    assert [c.name for c in world.cri.containers] == ["a"]
    assert len(world.cri.sandboxes) == 1
    world.cri.remove_fault(fault)
    await world.clock.advance(60)
    await world.runtime.gc(frozenset)
    assert world.cri.sandboxes == []


async def _raising(world: World, patch: pytest.MonkeyPatch, name: str, bad: str) -> set[str]:
    """Remove two pods, or their logs, while a step fails for one of them; where the step was tried."""
    tried: set[str] = set()
    kind = {"remove_dir": LogFiles, "drop": LogLinks}.get(name, Collector)
    original = getattr(kind, name)

    def fail(self: object, item: object, *rest: object) -> object:
        reported = str(getattr(item, "id", item))
        tried.add(reported)
        if bad in reported:
            raise ValueError("no error that anyone foresaw")
        return original(self, item, *rest)

    patch.setattr(kind, name, fail)
    for _ in range(2):
        await world.runtime.gc(frozenset)
    return tried


@pytest.mark.parametrize("step", ["_remove_dead", "_remove_sandbox"])
async def test_garbage_that_raises_does_not_keep_the_rest(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pods = [pod_of(meta={"name": name, "uid": name}) for name in ("one", "two")]
    for pod in pods:
        await world.settle(pod)
        await world.kill(pod)
    of_one = world.cri.containers[0].id if step == "_remove_dead" else world.cri.sandboxes[0].id
    assert len(await _raising(world, monkeypatch, step, of_one)) == 2
    left = world.cri.containers if step == "_remove_dead" else world.cri.sandboxes
    assert [each.id for each in left] == [of_one]
    assert [getattr(r, "item", "") for r in caplog.records if r.levelname == "ERROR"] == [of_one]


@pytest.mark.parametrize("step", ["remove_dir", "drop"])
async def test_logs_that_cannot_be_removed_do_not_keep_the_rest(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a disk that has become read-only."""
    links, logs = Path(world.config.container_logs_dir), Path(world.config.pod_logs_dir)
    links.mkdir(parents=True, exist_ok=True)
    for name in ("one", "two"):
        (logs / f"ns_{name}_{name}").mkdir(parents=True)
        (links / f"{name}_ns_app-0123456789abcdef.log").symlink_to(logs / "ns_gone_gone" / "app" / "0.log")
    tried = await _raising(world, monkeypatch, step, "one")
    assert len(tried) == 2
    left = [path.name for path in (logs if step == "remove_dir" else links).iterdir()]
    assert len(left) == 1
    assert "one" in left[0]
    assert len([r for r in caplog.records if r.levelname == "ERROR"]) == 1


async def test_logs_that_cannot_be_listed_do_not_keep_containers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = pod_of()
    await world.settle(pod)
    await world.kill(pod)

    def fail(self: object, *_: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr(LogFiles, "pod_dirs", fail)
    monkeypatch.setattr(LogLinks, "dead", fail)
    await world.runtime.gc(frozenset)
    assert world.cri.sandboxes == []


async def test_gc_retries_a_sandbox_that_cannot_be_removed(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    await world.kill(pod)
    faults = [
        world.cri.inject(Fault("StopPodSandbox", code=StatusCode.UNKNOWN, details="CNI", times=1)),
        world.cri.inject(Fault("RemovePodSandbox", code=StatusCode.UNKNOWN, details="busy", times=1)),
    ]
    for _ in faults:
        with pytest.raises(Transient, match="pod ns/web is not removed"):
            await world.runtime.remove_pod(ref_of(pod))
    await world.runtime.remove_pod(ref_of(pod))
    assert world.cri.sandboxes == []


async def test_pod_that_starts_again_continues_its_restart_counts(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    await world.kill(pod)
    await world.runtime.remove_pod(ref_of(pod), keep_logs=True)
    assert (world.cri.containers, world.cri.sandboxes) == ([], [])
    assert world.runtime_logs(pod).exists()
    await world.settle(pod)
    [container] = (await world.status(pod)).containers
    assert (container.restart_count, world.running()) == (1, ["app"])
    await world.kill(pod)
    await world.runtime.remove_pod(ref_of(pod))
    assert not world.runtime_logs(pod).exists()


async def test_gc_kills_a_container_in_unknown_state_before_removal(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    world.cri.containers[0].state = pb.CONTAINER_UNKNOWN
    await world.runtime.gc(frozenset)
    assert world.cri.calls("StopContainer") == ["ns/web/app"]
    assert "Killing[app]: Container is in unknown state, try killing it before removal" in world.events.seen
    assert world.cri.containers == []


async def test_gc_raises_when_the_runtime_cannot_list(world: World) -> None:
    world.cri.inject(Fault("ListContainers", code=StatusCode.UNAVAILABLE))
    with pytest.raises(Transient):
        await world.runtime.gc(frozenset)


async def test_gc_works_without_log_link_directory(world: World) -> None:
    world.config = type(world.config)(pod_logs_dir=world.config.pod_logs_dir, container_logs_dir="")
    world.restart()
    pod = pod_of()
    await world.settle(pod)
    await world.runtime.gc(lambda: {ref_of(pod).uid})
    await world.kill(pod)
    await world.runtime.remove_pod(ref_of(pod))
    assert not world.runtime_logs(pod).exists()
