"""Reading statuses from the runtime: cached containers, objects that disappear, and termination messages."""

import os
from pathlib import Path

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Transient
from pykubelet.kubelet.types.ids import PodRef, PodUID, SandboxID
from pykubelet.kubelet.types.runtime import PodRuntimeStatus
from pykubelet.models.core_v1 import Pod
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Fault, Script
from tests.unit.kubelet.actuate.podruntime.build import Fields, pod_of
from tests.unit.kubelet.actuate.podruntime.world import World


async def test_status_is_the_same_with_and_without_containers_in_sandbox_status(world: World) -> None:
    world.cri.script(Script(exit_after=0, exit_code=3), container="a")
    pod = pod_of(("a", "b"), restartPolicy="Never")
    await world.settle(pod)
    by_sandbox = await world.status(pod)
    world.cri.inject(Fault("PodSandboxStatus", code=StatusCode.NOT_FOUND, times=1))
    world.cri.log.clear()
    by_container = await world.status(pod)
    assert "ContainerStatus" in {r.method for r in world.cri.log}
    assert by_container == by_sandbox
    world.cri.log.clear()
    assert await world.status(pod) == by_sandbox
    assert {r.method for r in world.cri.log} == {"ListPodSandbox", "PodSandboxStatus"}


async def test_sandboxes_added_and_removed_between_reads_are_seen(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    client, (old,) = world.cri.client(), world.cri.sandboxes
    other = pb.PodSandboxConfig()
    other.CopyFrom(old.config)
    other.metadata.attempt = 7
    made = await client.run_pod_sandbox(other)
    assert {s.id for s in (await world.status(pod)).sandboxes} == {old.id, made}
    await client.remove_pod_sandbox(SandboxID(old.id))
    status = await world.status(pod)
    assert [s.id for s in status.sandboxes] == [made]
    assert status.containers == ()


async def test_first_status_of_a_new_pod_makes_no_calls(world: World) -> None:
    known = pod_of()
    await world.settle(known)
    await world.runtime.list_pods()
    world.cri.log.clear()
    new = PodRef("ns", "new", PodUID("new"))
    assert await world.runtime.pod_status(new) == PodRuntimeStatus(new, observed_at=world.clock.now())
    assert not world.cri.log
    await world.runtime.pod_status(new)  # by now something may have been made
    assert "ListPodSandbox" in {r.method for r in world.cri.log}
    await world.runtime.remove_pod(new)
    world.cri.log.clear()
    await world.runtime.pod_status(new)
    assert not world.cri.log


async def test_pod_of_an_earlier_agent_is_read_before_and_after_the_first_list(world: World) -> None:
    pod = pod_of()
    await world.settle(pod)
    world.restart()
    assert (await world.status(pod)).running
    world.restart()
    await world.runtime.list_pods()
    assert (await world.status(pod)).running


async def test_exited_container_is_read_once(plain_world: World) -> None:
    world = plain_world
    world.cri.script(Script(exit_after=0), container="a")
    pod = pod_of(("a", "b"), restartPolicy="Never")
    await world.settle(pod)
    first = await world.status(pod)
    world.cri.log.clear()
    second = await world.status(pod)
    assert second.containers == first.containers
    assert world.cri.calls("ContainerStatus") == ["ns/web/b"]


async def test_removed_containers_are_forgotten(world: World) -> None:
    world.cri.script(Script(exit_after=0), container="a")
    pod = pod_of(("a", "b"), restartPolicy="Never")
    await world.settle(pod)
    status = await world.status(pod)
    ended = status.latest("a")
    assert ended is not None
    await world.cri.client().remove_container(ended.id)
    assert (await world.status(pod)).latest("a") is None
    await world.cri.client().remove_pod_sandbox(status.sandboxes[0].id)
    await world.runtime.list_pods()
    assert (await world.status(pod)).containers == ()


@pytest.mark.parametrize("method", ["ContainerStatus", "PodSandboxStatus"])
async def test_object_that_disappears_during_the_read_is_left_out(plain_world: World, method: str) -> None:
    world, pod = plain_world, pod_of()
    await world.settle(pod)
    world.cri.inject(Fault(method, code=StatusCode.NOT_FOUND, times=1))
    status = await world.status(pod)
    assert len(status.containers) + len(status.sandboxes) == 1


@pytest.mark.parametrize("method", ["ListContainers", "ListPodSandbox", "ContainerStatus", "PodSandboxStatus"])
async def test_unavailable_runtime_raises(plain_world: World, method: str) -> None:
    """The error comes as it is, not wrapped into a group."""
    world, pod = plain_world, pod_of(("a", "b"))
    await world.settle(pod)
    world.cri.inject(Fault(method, code=StatusCode.UNAVAILABLE))
    with pytest.raises(Transient, match="UNAVAILABLE"):
        await world.status(pod)
    if method.startswith("List"):
        with pytest.raises(Transient, match="UNAVAILABLE"):
            await world.runtime.list_pods()


async def test_status_of_unknown_pod_is_empty(world: World) -> None:
    status = await world.runtime.pod_status(PodRef("ns", "x", PodUID("unknown")))
    assert (status.sandboxes, status.containers, status.ips) == ((), (), ())


def message_file(world: World) -> Path:
    """The file that the newest container has mounted for its message."""
    mounts = world.cri.containers[-1].config.mounts
    (file,) = (m.host_path for m in mounts if m.container_path == "/dev/termination-log")
    return Path(file)


TALKS: Fields = {"name": "app", "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
FALLS_BACK: Fields = {**TALKS, "terminationMessagePolicy": "FallbackToLogsOnError"}


async def ended(world: World, container: Fields, code: int, words: bytes | None, *output: str) -> str:
    """Let a container write its message and end; gives what it shows."""
    world.cri.script(Script(output=output))
    pod = pod_of((container,), restartPolicy="Never")
    await world.settle(pod)
    if words is not None:
        message_file(world).write_bytes(words)
    world.cri.end_container(world.cri.containers[-1], code)
    return await message(world, pod)


async def message(world: World, pod: Pod) -> str:
    attempt = (await world.status(pod)).latest("app")
    assert attempt is not None
    return attempt.message


@pytest.mark.parametrize(
    ("container", "code", "words", "output", "shown"),
    [
        (TALKS, 0, b"fare\xc3\xa9well\n", (), "fareéwell\n"),
        (TALKS, 1, b"", ("from the log",), ""),
        (TALKS, 1, b"x" * 5000, (), "x" * 4096),
        (TALKS, 1, b"\xff\xfe", (), "\N{REPLACEMENT CHARACTER}" * 2),
        (FALLS_BACK, 1, b"words", ("from the log",), "words"),
        (FALLS_BACK, 1, b"", ("one", "two"), "one\ntwo\n"),
        (FALLS_BACK, 0, b"", ("one", "two"), ""),
        (FALLS_BACK, 1, b"", tuple(map(str, range(200))), "".join(f"{n}\n" for n in range(120, 200))),
        (FALLS_BACK, 1, b"", ("x" * 3000,), "x" * 2047 + "\n"),
        ({"name": "app"}, 1, None, ("from the log",), ""),
    ],
)
async def test_termination_message_is_read_from_file_or_output(
    world: World, container: Fields, code: int, words: bytes | None, output: tuple[str, ...], shown: str
) -> None:
    assert await ended(world, container, code, words, *output) == shown


async def test_termination_log_is_writable_by_every_user(world: World) -> None:
    await world.settle(pod_of((TALKS,)))
    assert message_file(world).stat().st_mode & 0o777 == 0o666


async def test_each_attempt_has_its_own_termination_log(world: World) -> None:
    world.cri.script(Script(exit_after=0))
    pod = pod_of((TALKS,))
    await world.sync(pod)
    first = message_file(world)
    await world.sync(pod)
    assert message_file(world) != first


async def test_termination_message_follows_the_runtimes_message(world: World) -> None:
    world.cri.script(Script(fail_start="no such file"))
    pod = pod_of((TALKS,), restartPolicy="Never")
    await world.sync(pod)
    message_file(world).write_text("but I lived")
    assert await message(world, pod) == "no such file: but I lived"


@pytest.mark.parametrize("trick", ["symlink", "fifo", "directory", "gone"])
async def test_hostile_message_file_is_not_followed(world: World, tmp_path: Path, trick: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root:x:0:0")
    pod = pod_of((TALKS,), restartPolicy="Never")
    await world.settle(pod)
    file = message_file(world)
    file.unlink()
    match trick:
        case "symlink":
            file.symlink_to(secret)
        case "fifo":
            os.mkfifo(file)
        case "directory":
            file.mkdir()
    world.cri.end_container(world.cri.containers[-1], 1)
    shown = await message(world, pod)
    assert "root:x" not in shown
    assert bool(shown) is (trick in ("fifo", "directory")), "what cannot be read is said"


async def test_log_that_is_a_link_gives_no_message(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("2026-01-01T00:00:00.000000000Z stdout F root:x:0:0\n")
    pod = pod_of((FALLS_BACK,), restartPolicy="Never")
    await world.settle(pod)
    log = world.runtime_logs(pod) / "app" / "0.log"
    log.unlink()
    log.symlink_to(secret)
    world.cri.end_container(world.cri.containers[-1], 1)
    assert await message(world, pod) == ""
