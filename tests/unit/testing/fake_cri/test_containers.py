"""Containers of the fake runtime live by their scripts."""

import asyncio
from pathlib import Path

import pytest
from grpc import StatusCode

from pykubelet.base.errors import Permanent, Transient
from pykubelet.kubelet.actuate.cri import CriClient, CriTimeout
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_cri import ExecScript, FakeCri, FakeCriOptions, Script
from tests.unit.testing.fake_cri.build import RUNNING, app, pod, start, state


async def test_runs_until_it_is_stopped(client: CriClient, clock: VirtualClock) -> None:
    container = await start(client)
    await clock.advance(3600)
    assert await state(client, container) == RUNNING
    await client.stop_container(container, 30)
    assert await state(client, container) == (pb.CONTAINER_EXITED, 143, "Error")


async def test_scripted_container_ends_by_itself(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    cri.script(Script(exit_after=5, exit_code=3))
    container = await start(client)
    started = clock.now()
    await clock.advance(4.9)
    assert await state(client, container) == RUNNING
    await clock.advance(10)
    assert await state(client, container) == (pb.CONTAINER_EXITED, 3, "Error")
    status = (await client.container_status(container)).status
    assert (status.started_at / 1e9, status.finished_at / 1e9) == (started, started + 5)


@pytest.mark.parametrize(
    ("stop_after", "grace", "code", "takes"), [(2.0, 30, 143, 2), (None, 30, 137, 30), (2.0, 1, 137, 1)]
)
async def test_stopping_takes_its_time(
    cri: FakeCri,
    client: CriClient,
    clock: VirtualClock,
    stop_after: float | None,
    grace: int,
    code: int,
    takes: int,
) -> None:
    cri.script(Script(stop_after=stop_after))
    container = await start(client)
    stopping = asyncio.ensure_future(client.stop_container(container, grace))
    await clock.advance(takes - 0.01)
    assert not stopping.done()
    await clock.advance(0.02)
    await stopping
    assert await state(client, container) == (pb.CONTAINER_EXITED, code, "Error")


async def test_a_killed_one_ends_at_once(cri: FakeCri, client: CriClient) -> None:
    cri.script(Script(stop_after=None))
    container = await start(client)
    await client.stop_container(container, 0)
    assert await state(client, container) == (pb.CONTAINER_EXITED, 137, "Error")


async def test_a_test_may_end_it(cri: FakeCri, client: CriClient) -> None:
    container = await start(client)
    cri.end_container(cri.container("ns/pod/app"), 137, "OOMKilled")
    assert await state(client, container) == (pb.CONTAINER_EXITED, 137, "OOMKilled")


async def test_each_attempt_has_its_script(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    cri.script(Script(exit_after=1, exit_code=1), Script(exit_after=1), Script(), container="app")
    sandbox = await client.run_pod_sandbox(pod())
    codes = []
    for attempt in range(4):
        container = await client.create_container(sandbox, app(attempt=attempt), pod())
        await client.start_container(container)
        await clock.advance(2)
        codes.append(await state(client, container))
    ended = pb.CONTAINER_EXITED
    assert codes == [(ended, 1, "Error"), (ended, 0, "Completed"), RUNNING, RUNNING]


async def test_scripts_by_pod_and_image(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    cri.script(Script(exit_after=1), image="app:1")
    cri.script(Script(), pod="ns/pod")
    one = await start(client)
    other = await client.run_pod_sandbox(pod("other"))
    two = await client.create_container(other, app(), pod("other"))
    await client.start_container(two)
    await clock.advance(2)
    assert (await state(client, one), (await state(client, two))[0]) == (RUNNING, pb.CONTAINER_EXITED)


async def test_creation_may_fail(cri: FakeCri, client: CriClient) -> None:
    cri.script(Script(fail_create=(StatusCode.UNKNOWN, "bad mount")))
    sandbox = await client.run_pod_sandbox(pod())
    with pytest.raises(Transient, match="bad mount"):
        await client.create_container(sandbox, app(), pod())
    assert cri.containers == []


async def test_the_start_may_fail(cri: FakeCri, client: CriClient) -> None:
    cri.script(Script(fail_start="no such file"))
    with pytest.raises(Transient, match="no such file"):
        await start(client)
    status = (await client.container_status(ContainerID(cri.containers[0].id))).status
    assert (status.state, status.exit_code) == (pb.CONTAINER_EXITED, 128)
    assert (status.reason, status.message) == ("StartError", "no such file")


async def test_exec_runs_the_script_of_its_command(cri: FakeCri, client: CriClient, clock: VirtualClock) -> None:
    cri.script_exec(ExecScript(exit_code=1, stderr=b"no\n"), command=["cat"])
    cri.script_exec(ExecScript(stdout=b"hello\n"), command=["cat", "/hello"], container="app")
    cri.script_exec(ExecScript(duration=10), command=["slow"])
    cri.script_exec(ExecScript(fail=(StatusCode.UNKNOWN, "no such binary")), command=["gone"])
    container = await start(client)
    assert (await client.exec_sync(container, ["true"])).exit_code == 0
    assert (await client.exec_sync(container, ["cat", "/hello"])).stdout == b"hello\n"
    assert (await client.exec_sync(container, ["cat", "/x"])).exit_code == 1
    with pytest.raises(Transient, match="no such binary"):
        await client.exec_sync(container, ["gone"])
    slow = asyncio.ensure_future(client.exec_sync(container, ["slow"], 3))
    await clock.advance(3)
    with pytest.raises(CriTimeout, match="timeout 3s exceeded"):
        await slow


async def test_nothing_runs_in_an_ended_container(cri: FakeCri, client: CriClient) -> None:
    container = await start(client)
    cri.end_container(cri.containers[0])
    for call in (
        client.exec_sync(container, ["true"]),
        client.exec(pb.ExecRequest(container_id=container)),
        client.attach(pb.AttachRequest(container_id=container)),
        client.reopen_container_log(container),
        client.checkpoint_container(container, "/c.tar", 1),
        client.update_container_resources(container, pb.LinuxContainerResources()),
        client.start_container(container),
    ):
        with pytest.raises(Permanent, match="CONTAINER_EXITED"):
            await call


async def test_resources_are_merged(client: CriClient) -> None:
    container = await start(client)
    await client.update_container_resources(container, pb.LinuxContainerResources(cpu_shares=10))
    await client.update_container_resources(container, pb.LinuxContainerResources(cpu_quota=20))
    linux = (await client.container_status(container)).status.resources.linux
    assert (linux.cpu_shares, linux.cpu_quota) == (10, 20)


async def test_logs_are_written_and_reopened(clock: VirtualClock, tmp_path: Path) -> None:
    async with FakeCri(clock, FakeCriOptions(write_logs=True)) as cri:
        cri.add_image("app:1")
        cri.script(Script(output=["one", "two"]))
        client = cri.client()
        sandbox_config, config = pod(), app()
        sandbox_config.log_directory, config.log_path = str(tmp_path), "app/0.log"
        sandbox = await client.run_pod_sandbox(sandbox_config)
        container = await client.create_container(sandbox, config, sandbox_config)
        await client.start_container(container)
        log = tmp_path / "app" / "0.log"
        assert [line.split(" ", 1)[1] for line in log.read_text().splitlines()] == [
            "stdout F one",
            "stdout F two",
        ]
        log.rename(tmp_path / "rotated")
        await client.reopen_container_log(container)
        assert log.read_text() == ""
