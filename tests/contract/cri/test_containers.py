"""Contract of containers: life cycle, commands and usage."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.kubelet.actuate.cri import CriClient, CriError, CriOptions, CriTimeout
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.patience import PATIENCE
from tests.contract.cri.rig import (
    FAILING,
    MARK,
    MISSING,
    POLITE,
    SHOUT,
    SLEEP,
    STUBBORN,
    SUCCEEDING,
    Program,
    Runtime,
)


@pytest.mark.steady_clock  # its times are compared with the test's clock
async def test_container_life_cycle_shows_in_state_and_times(runtime: Runtime) -> None:
    client = runtime.client
    container = await runtime.create(await runtime.sandbox(), STUBBORN)
    created = await runtime.status(container)
    assert (created.state, created.started_at, created.finished_at) == (pb.CONTAINER_CREATED, 0, 0)
    await client.start_container(container)
    running = await runtime.status(container)
    assert running.state == pb.CONTAINER_RUNNING
    assert 0 < running.created_at <= running.started_at <= time.time_ns()
    assert running.finished_at == 0
    await runtime.begun(container)
    await client.stop_container(container, 1)
    stopped = await runtime.status(container)
    assert (stopped.state, stopped.exit_code, stopped.reason) == (pb.CONTAINER_EXITED, 137, "Error")
    assert stopped.finished_at >= running.started_at
    await client.stop_container(container, 1)
    await client.remove_container(container)
    await client.remove_container(container)
    with pytest.raises(NotFound):
        await client.container_status(container)


async def test_container_status_tells_what_it_was_made_from(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    status, config = await runtime.status(container), runtime.container_config(STUBBORN)
    assert status.metadata == config.metadata
    assert dict(status.labels) == dict(config.labels)
    assert dict(status.annotations) == dict(config.annotations)
    assert status.image.image == runtime.image
    assert status.image_ref
    assert status.log_path == str(runtime.logs / config.log_path)
    assert status.resources.linux.cpu_shares == 100
    assert (await runtime.client.container_status(container, verbose=True)).info


async def test_containers_are_listed_by_each_filter(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox(runtime.pod_config(0))
    other_sandbox = await runtime.sandbox(runtime.pod_config(1))
    running = await runtime.create(sandbox, STUBBORN)
    await runtime.client.start_container(running)
    created = await runtime.create(sandbox, POLITE)
    mine = {MARK: runtime.logs.name}
    is_running = pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)

    async def found(filter: pb.ContainerFilter) -> set[str]:
        return {container.id for container in await runtime.client.list_containers(filter)}

    assert await found(pb.ContainerFilter(label_selector=mine)) == {running, created}
    assert await found(pb.ContainerFilter(label_selector=mine | {"program": "polite"})) == {created}
    assert await found(pb.ContainerFilter(label_selector=mine, state=is_running)) == {running}
    assert await found(pb.ContainerFilter(pod_sandbox_id=sandbox)) == {running, created}
    assert await found(pb.ContainerFilter(pod_sandbox_id=other_sandbox)) == set()
    assert await found(pb.ContainerFilter(id=created)) == {created}
    (summary,) = await runtime.client.list_containers(pb.ContainerFilter(id=running))
    assert (summary.pod_sandbox_id, summary.state) == (sandbox, pb.CONTAINER_RUNNING)
    assert summary.metadata == runtime.container_config(STUBBORN).metadata


async def test_streamed_lists_equal_unary_lists(runtime: Runtime, endpoint: str) -> None:
    container = await runtime.start(STUBBORN)
    async with CriClient.connect(endpoint, CriOptions(list_streaming=True)) as streaming:
        for _ in range(2):
            assert container in {found.id for found in await streaming.list_containers()}


@pytest.mark.parametrize(("program", "code", "reason"), [(FAILING, 3, "Error"), (SUCCEEDING, 0, "Completed")])
async def test_exit_code_and_reason_of_an_ended_container_are_reported(
    runtime: Runtime, program: Program, code: int, reason: str
) -> None:
    status = await runtime.ended(await runtime.start(program))
    assert (status.exit_code, status.reason) == (code, reason)
    # containerd records the start at the end of the call, which may be after the exit of a short program.
    assert min(status.started_at, status.finished_at) >= status.created_at > 0


async def test_output_goes_to_the_log(runtime: Runtime) -> None:
    status = await runtime.ended(await runtime.start(FAILING))
    (line,) = Path(status.log_path).read_text().splitlines()
    stamp, stream, tag, text = line.split(" ", 3)
    assert stamp.startswith("20")
    assert (stream, tag, text) == ("stdout", "F", "hello")


async def test_rotated_log_is_reopened(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    log = Path((await runtime.status(container)).log_path)
    log.rename(log.with_suffix(".rotated"))
    await runtime.client.reopen_container_log(container)
    assert log.is_file()


async def test_program_that_handles_sigterm_exits_within_grace_period(runtime: Runtime) -> None:
    container = await runtime.start(POLITE)
    # The shell needs a moment to set its trap.
    await runtime.client.exec_sync(container, ["sleep", "0.3"])
    await runtime.client.stop_container(container, 20)
    assert (await runtime.status(container)).exit_code == 7


async def test_no_grace_kills_at_once(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    async with asyncio.timeout(10 * PATIENCE):
        await runtime.client.stop_container(container, 0)
    assert (await runtime.status(container)).exit_code == 137


async def test_a_program_that_cannot_be_started(runtime: Runtime) -> None:
    container = await runtime.create(await runtime.sandbox(), MISSING)
    with pytest.raises(CriError, match=r"(?i)no such file"):
        await runtime.client.start_container(container)
    status = await runtime.status(container)
    assert (status.state, status.exit_code, status.reason) == (pb.CONTAINER_EXITED, 128, "StartError")
    assert "no such file" in status.message.lower()


async def test_a_container_starts_once(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    with pytest.raises(CriError):
        await runtime.client.start_container(container)
    assert (await runtime.status(container)).state == pb.CONTAINER_RUNNING


async def test_a_container_name_is_taken_once_for_each_attempt(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    await runtime.create(sandbox, STUBBORN)
    other = runtime.container_config(STUBBORN)
    other.labels["changed"] = "yes"
    with pytest.raises(Conflict):
        await runtime.client.create_container(sandbox, other, runtime.pod_config())
    again = await runtime.create(sandbox, STUBBORN, attempt=1)
    assert (await runtime.status(again)).metadata.attempt == 1


async def test_a_container_needs_an_image_and_a_sandbox(runtime: Runtime) -> None:
    config = runtime.container_config(STUBBORN)
    with pytest.raises(NotFound):
        await runtime.client.create_container(SandboxID("0" * 64), config, runtime.pod_config())
    config.image.image = "localhost/no/such:image"
    with pytest.raises(NotFound):
        await runtime.client.create_container(await runtime.sandbox(), config, runtime.pod_config())


async def test_a_running_container_is_removed_by_force(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    await runtime.client.remove_container(container)
    with pytest.raises(NotFound):
        await runtime.client.container_status(container)


async def test_resources_are_changed_while_it_runs(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    await runtime.client.update_container_resources(container, pb.LinuxContainerResources(cpu_shares=200))
    assert (await runtime.status(container)).resources.linux.cpu_shares == 200


Call = Callable[[CriClient], Awaitable[object]]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.container_status(ContainerID("nope")),
        lambda c: c.start_container(ContainerID("nope")),
        lambda c: c.exec_sync(ContainerID("nope"), ["true"]),
        lambda c: c.reopen_container_log(ContainerID("nope")),
        lambda c: c.container_stats(ContainerID("nope")),
        lambda c: c.pod_sandbox_status(SandboxID("nope")),
    ],
)
async def test_unknown_ids_are_not_found(runtime: Runtime, call: Call) -> None:
    with pytest.raises(NotFound):
        await call(runtime.client)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.stop_container(ContainerID("nope"), 1),
        lambda c: c.stop_pod_sandbox(SandboxID("nope")),
    ],
)
async def test_stop_of_unknown_id_succeeds_or_is_not_found(runtime: Runtime, call: Call) -> None:
    with suppress(NotFound):
        await call(runtime.client)


@pytest.mark.parametrize(
    "call",
    [lambda c: c.remove_container(ContainerID("nope")), lambda c: c.remove_pod_sandbox(SandboxID("nope"))],
)
async def test_removal_of_unknown_id_succeeds(runtime: Runtime, call: Call) -> None:
    await call(runtime.client)


async def test_exec_sync_returns_exit_code_and_both_outputs(runtime: Runtime) -> None:
    result = await runtime.client.exec_sync(await runtime.start(STUBBORN), SHOUT, 10)
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"out\n", b"err\n")


async def test_exec_sync_ends_at_its_timeout(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    started = time.monotonic()
    with pytest.raises(CriTimeout):
        await runtime.client.exec_sync(container, SLEEP, 1)
    assert 0.9 < time.monotonic() - started < 10
    assert (await runtime.status(container)).state == pb.CONTAINER_RUNNING


async def test_exec_sync_needs_a_running_container(runtime: Runtime) -> None:
    container = await runtime.start(SUCCEEDING)
    await runtime.ended(container)
    with pytest.raises(CriError):
        await runtime.client.exec_sync(container, ["true"])


async def test_streaming_calls_give_urls(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    urls = [
        await runtime.client.exec(pb.ExecRequest(container_id=container, cmd=["true"], stdout=True)),
        await runtime.client.attach(pb.AttachRequest(container_id=container, stdout=True)),
        await runtime.client.port_forward(runtime.sandboxes[0], [80]),
    ]
    assert [url.split("://")[0] for url in urls] == ["http"] * 3


async def test_usage_of_a_running_container_is_listed_by_sandbox(runtime: Runtime) -> None:
    container = await runtime.start(STUBBORN)
    stats = await runtime.client.container_stats(container)
    assert stats.attributes.id == container
    assert stats.memory.working_set_bytes.value > 0
    assert stats.cpu.timestamp > 0
    listed = await runtime.client.list_container_stats(pb.ContainerStatsFilter(pod_sandbox_id=runtime.sandboxes[0]))
    assert [found.attributes.id for found in listed] == [container]
    pods = await runtime.client.list_pod_sandbox_stats(pb.PodSandboxStatsFilter(id=runtime.sandboxes[0]))
    assert [found.attributes.id for found in pods] == [runtime.sandboxes[0]]
