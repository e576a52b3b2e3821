"""The agent is killed at any moment and started again: no container is lost, doubled or restarted without cause."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from google.protobuf.message import Message
from grpc import StatusCode
from msgspec.structs import replace

from pykubelet.base.units import Seconds
from pykubelet.kubelet.actuate.cri.transport import StreamCall, Transport, UnaryCall
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.runtime import ContainerState
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import FakeCriOptions, Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import Fields, pod_of, sidecar
from tests.unit.kubelet.actuate.podruntime.world import World, make_world

_Request = TypeVar("_Request", bound=Message)
_Reply = TypeVar("_Reply", bound=Message)

_READS = {"ListPodSandbox", "ListContainers", "ContainerStatus", "PodSandboxStatus"}


class Guillotine:
    """Ends the agent at its n-th changing call, before or after the runtime has done what was asked."""

    def __init__(self, inner: Transport, fatal: int, *, after: bool) -> None:
        self._inner = inner
        self._left = fatal
        self._after = after
        self.victim: asyncio.Task[None] | None = None

    async def unary(self, call: UnaryCall[_Request, _Reply], request: _Request, timeout: Seconds | None) -> _Reply:
        if call.name in _READS:
            return await self._inner.unary(call, request, timeout)
        self._left -= 1
        fatal = self._left == 0
        if fatal and not self._after:
            await self._fall()
        reply = await self._inner.unary(call, request, timeout)
        if fatal:
            await self._fall()
        return reply

    async def _fall(self) -> None:
        assert self.victim is not None
        self.victim.cancel()
        await asyncio.Event().wait()

    def stream(
        self, call: StreamCall[_Request, _Reply], request: _Request, timeout: Seconds | None
    ) -> AsyncGenerator[_Reply, None]:
        return self._inner.stream(call, request, timeout)

    async def close(self) -> None:
        await self._inner.close()


HOOKED: Fields = {"name": "a", "lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}
PODS = {
    "one container": pod_of(("a",)),
    "three containers and a hook": pod_of((HOOKED, "b", "c")),
    "init, sidecar, ordinary": pod_of(("a",), ("i", sidecar("s"), "j")),
    "run once": pod_of(("a",), restartPolicy="Never"),
}


async def dies(world: World, work: Callable[[], Coroutine[None, None, object]], fatal: int, *, after: bool) -> bool:
    """Let an agent do something that dies at its n-th changing call; False if there was no such call."""
    guillotines: list[Guillotine] = []

    def wrap(inner: Transport) -> Transport:
        guillotines.append(Guillotine(inner, fatal, after=after))
        return guillotines[0]

    async def live() -> None:
        await work()

    world.transport(wrap)
    guillotines[0].victim = asyncio.ensure_future(live())
    try:
        await guillotines[0].victim
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", PODS)
async def test_killed_at_every_call_of_a_start(tmp_path: Path, name: str, after: bool) -> None:
    pod = PODS[name]
    fatal = 0
    deaths = True
    while deaths:
        fatal += 1
        directory = tmp_path / str(fatal)
        directory.mkdir()
        async with make_world(directory, FakeCriOptions(write_logs=True)) as world:
            world.cri.script(Script(exit_after=0), container="i")
            world.cri.script(Script(exit_after=0), container="j")
            deaths = await dies(world, partial(world.settle, pod), fatal, after=after)
            world.restart()
            await world.settle(pod)
            await check_runs(world, pod)
    assert fatal > 3, "the agent was not killed at all"


async def check_runs(world: World, pod: Pod) -> None:
    """Exactly one running container for each of the spec, never restarted, with a log and a link to it."""
    names = Counter(c.name for c in world.cri.containers)
    assert names == Counter(c.name for c in (*pod.spec.init_containers, *pod.spec.containers)), "lost or doubled"
    assert set(world.running()) == {c.name for c in pod.spec.containers} | {"s" for _ in "s" if "s" in names}
    status = await world.status(pod)
    assert {c.restart_count for c in status.containers} == {0}
    assert [s.ready for s in world.cri.sandboxes] == [True]
    logs = sorted(str(p.relative_to(world.runtime_logs(pod))) for p in world.runtime_logs(pod).rglob("*.log"))
    assert logs == sorted(f"{name}/0.log" for name in names)
    await world.runtime.gc(lambda: {ref_of(pod).uid})
    links = sorted(p.name for p in Path(world.config.container_logs_dir).iterdir())
    assert links == sorted(f"web_ns_{c.name}-{c.id}.log" for c in status.containers)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_of_a_restart(tmp_path: Path, after: bool) -> None:
    pod = pod_of(("a", "b"))
    fatal = 0
    deaths = True
    while deaths:
        fatal += 1
        directory = tmp_path / str(fatal)
        directory.mkdir()
        async with make_world(directory) as world:
            await world.settle(pod)
            world.cri.end_container(world.cri.container("ns/web/a"), 1)
            deaths = await dies(world, partial(world.settle, pod), fatal, after=after)
            world.restart()
            await world.settle(pod)
            assert sorted(world.running()) == ["a", "b"]
            status = await world.status(pod)
            latest = {name: c.restart_count for name in "ab" if (c := status.latest(name))}
            assert latest == {"a": 1, "b": 0}
    assert fatal > 2


async def end(world: World, pod: Pod) -> None:
    await world.kill(pod)
    await world.runtime.remove_pod(ref_of(pod))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_call_of_an_end(tmp_path: Path, after: bool) -> None:
    pod = pod_of(("a", "b"), (sidecar("s"),))
    fatal = 0
    deaths = True
    while deaths:
        fatal += 1
        directory = tmp_path / str(fatal)
        directory.mkdir()
        async with make_world(directory) as world:
            await world.settle(pod)
            deaths = await dies(world, partial(end, world, pod), fatal, after=after)
            world.restart()
            # Without the pod, as after a restart of the agent in whose absence the manifest was removed.
            for orphan in await world.runtime.list_pods():
                status = await world.runtime.pod_status(orphan.ref)
                await world.during(world.runtime.kill_pod(orphan.ref, None, status, None), 60)
                await world.runtime.remove_pod(orphan.ref)
            assert world.cri.containers == []
            assert world.cri.sandboxes == []
            await world.runtime.gc(frozenset)
            assert list(Path(world.config.container_logs_dir).iterdir()) == []
            assert not world.runtime_logs(pod).exists()
    assert fatal > 5


async def test_container_created_after_the_agent_died_is_replaced(world: World) -> None:
    """The answer to CreateContainer was lost; its container shows up later."""
    pod = pod_of()
    world.cri.inject(Fault("CreateContainer", code=StatusCode.DEADLINE_EXCEEDED, after=True, times=1))
    outcome = await world.sync(pod)
    assert [f.reason for f in outcome.failures] == ["CreateContainerError"]
    assert len(world.cri.containers) == 1
    await world.settle(pod)
    await check_runs(world, pod)


CANCELED = "failed to create containerd task: failed to create shim task: context canceled: unknown"


@pytest.mark.parametrize("policy", ["Always", "Never"])
async def test_an_interrupted_start_is_no_restart(world: World, policy: str) -> None:
    """The runtime takes its time to undo a start that was asked for by an agent which is gone."""
    pod = pod_of(restartPolicy=policy)
    world.cri.script(Script(fail_start=CANCELED))
    await world.sync(pod)
    world.cri.script(Script())
    world.restart()
    busy = world.cri.inject(
        Fault("RemoveContainer", code=StatusCode.UNKNOWN, details="container is in starting state, can't be removed")
    )
    outcome = await world.sync(pod)
    (failure,) = outcome.failures
    assert (failure.reason, failure.transient) == ("CreateContainerError", True)
    assert outcome.wake_at == world.clock.monotonic() + 0.5
    assert len(world.cri.containers) == 1
    world.cri.remove_fault(busy)
    await world.settle(pod)
    await check_runs(world, pod)


async def test_container_marked_unstarted_that_runs_keeps_its_log(world: World) -> None:
    """The agent was killed when it had asked for the removal of one that the runtime was just starting."""
    pod = pod_of()
    await world.settle(pod)
    directory = world.runtime_logs(pod) / "app"
    (directory / "0.log").touch()
    (directory / "0.unstarted").touch()
    world.restart()
    await world.settle(pod)
    assert [path.name for path in directory.iterdir()] == ["0.log"]


async def test_successor_of_an_unstarted_container_that_was_half_removed_keeps_no_mark(world: World) -> None:
    """The agent was killed when the runtime had removed the container, and its log was still there."""
    pod = pod_of()
    directory = world.runtime_logs(pod) / "app"
    directory.mkdir(parents=True)
    (directory / "0.log").touch()
    (directory / "0.unstarted").touch()
    await world.settle(pod)
    assert [path.name for path in directory.iterdir()] == ["0.log"]
    assert (await world.status(pod)).containers[0].restart_count == 0


async def test_container_whose_start_ends_after_the_first_look_keeps_its_log(world: World) -> None:
    """The agent that was to remove it was killed, and the runtime was still starting it when the next one looked."""
    pod = pod_of()
    await world.settle(pod)
    directory = world.runtime_logs(pod) / "app"
    (directory / "0.log").touch()
    (directory / "0.unstarted").touch()
    world.restart()
    status = await world.status(pod)
    starting = replace(status, containers=tuple(replace(c, state=ContainerState.CREATED) for c in status.containers))
    await world.runtime._reconcile_logs(ref_of(pod), starting)
    assert (directory / "0.unstarted").exists()
    await world.settle(pod)
    assert [path.name for path in directory.iterdir()] == ["0.log"]


async def test_attempt_that_the_runtime_never_removes_is_ignored(world: World) -> None:
    """containerd 1.6 loses track of a container whose start was broken off: it neither stops nor removes it."""
    pod = pod_of()
    world.cri.script(Script(fail_start=CANCELED))
    await world.sync(pod)
    lost = world.cri.containers[0].id
    world.cri.script(Script())
    world.restart()
    busy = world.cri.inject(
        Fault("RemoveContainer", code=StatusCode.FAILED_PRECONDITION, details="cannot delete running task")
    )
    for _ in range(30):
        await world.sync(pod)
        await world.clock.advance(0.5)
    assert [c.id == lost for c in world.cri.containers] == [True, False]
    assert world.running() == ["app"]
    assert (await world.status(pod)).containers[0].restart_count == 0
    # Nothing of it is remembered when the pod is gone.
    world.cri.remove_fault(busy)
    assert world.runtime._starter._refusals
    await end(world, pod)
    assert not world.runtime._starter._refusals


async def test_sandbox_created_after_the_agent_died_is_used(world: World) -> None:
    pod = pod_of()
    world.cri.inject(Fault("RunPodSandbox", code=StatusCode.DEADLINE_EXCEEDED, after=True, times=1))
    outcome = await world.sync(pod)
    assert [f.reason for f in outcome.failures] == ["CreatePodSandboxError"]
    await world.settle(pod)
    await check_runs(world, pod)


TAKEN = 'failed to reserve container name "x": name "x" is reserved for "abc"'


async def test_container_name_conflict_is_retried(world: World) -> None:
    pod = pod_of()
    world.cri.inject(Fault("CreateContainer", code=StatusCode.UNKNOWN, details=TAKEN, times=2))
    for _ in range(2):
        outcome = await world.sync(pod)
        (failure,) = outcome.failures
        assert failure.transient
        assert outcome.wake_at == world.clock.monotonic() + 0.5
    await world.settle(pod)
    assert world.cri.containers[0].config.metadata.attempt == 0
    await check_runs(world, pod)


async def test_lasting_container_name_conflict_raises_the_attempt(world: World) -> None:
    """The runtime has lost track of the name: another number is tried, the restart count stays."""
    pod = pod_of()
    fault = world.cri.inject(Fault("CreateContainer", code=StatusCode.UNKNOWN, details=TAKEN))
    for _ in range(3):
        await world.sync(pod)
    fault.times = fault.hits
    await world.settle(pod)
    assert world.cri.containers[0].config.metadata.attempt == 1
    await check_runs(world, pod)


async def test_lasting_sandbox_name_conflict_raises_the_attempt(world: World) -> None:
    pod = pod_of()
    fault = world.cri.inject(
        Fault("RunPodSandbox", code=StatusCode.UNKNOWN, details=TAKEN.replace("container", "sandbox"))
    )
    for _ in range(3):
        outcome = await world.sync(pod)
        assert outcome.failures[0].transient
        assert outcome.wake_at == world.clock.monotonic() + 0.5
    fault.times = fault.hits
    await world.settle(pod)
    assert world.cri.sandboxes[0].config.metadata.attempt == 1
    await check_runs(world, pod)


async def test_restart_count_without_attempts_is_derived_from_logs(world: World) -> None:
    """After a reboot some runtimes know nothing any more."""
    pod = pod_of()
    logs = world.runtime_logs(pod) / "app"
    logs.mkdir(parents=True)
    for name in ("0.log", "1.log.20260101-000000.gz", "notes.txt"):
        (logs / name).touch()
    await world.settle(pod)
    assert (await world.status(pod)).containers[0].restart_count == 2
    assert world.cri.containers[0].config.log_path == "app/2.log"


async def test_newer_leftover_does_not_lead_to_a_second_container(world: World) -> None:
    """An interrupted creation comes to light only when its successor runs."""
    pod = pod_of()
    await world.settle(pod)
    await world.clock.advance(1)
    sandbox = world.cri.sandboxes[0]
    config = pb.ContainerConfig()
    config.CopyFrom(world.cri.containers[0].config)
    config.metadata.attempt = 7
    await world.cri.client().create_container((await world.status(pod)).sandboxes[0].id, config, sandbox.config)
    assert not (await world.sync(pod)).changed
    assert world.running() == ["app"]
