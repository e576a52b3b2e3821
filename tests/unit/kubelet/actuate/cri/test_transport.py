"""gRPC transport, with the fake runtime on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pykubelet.base.clock import SystemClock
from pykubelet.base.concurrency.tasks import cancel_all
from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.kubelet.actuate.cri import CriClient, CriTimeout
from pykubelet.kubelet.actuate.cri.caller import CriOptions
from pykubelet.kubelet.actuate.cri.transport import socket_path
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import ExecScript, FakeCri, Fault, serve
from pykubelet.testing.fake_cri.server import MAX_CALLS
from pykubelet.testing.wait import until

POD = pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="pod", namespace="ns", uid="u1"))
APP = pb.ContainerConfig(metadata=pb.ContainerMetadata(name="app"), image=pb.ImageSpec(image="app:1"))


@pytest.mark.parametrize(("endpoint", "path"), [("unix:///run/a.sock", "/run/a.sock"), ("/run/a.sock", "/run/a.sock")])
def test_endpoint_with_or_without_scheme_is_a_socket_path(endpoint: str, path: str) -> None:
    assert socket_path(endpoint) == path


@pytest.mark.parametrize(
    "endpoint", ["", "unix://", "run/a.sock", "unix://run/a.sock", "tcp://127.0.0.1:1", "npipe:////./pipe/a"]
)
def test_other_endpoints_are_refused(endpoint: str) -> None:
    with pytest.raises(Invalid, match="must be a unix socket"):
        socket_path(endpoint)


def test_a_path_too_long_for_a_socket_is_refused() -> None:
    assert socket_path("/" + 106 * "a")
    with pytest.raises(Invalid, match="longer than 107 bytes"):
        socket_path("/" + 107 * "a")


@asynccontextmanager
async def served(directory: Path, options: CriOptions | None = None) -> AsyncIterator[tuple[FakeCri, CriClient]]:
    """A runtime behind a socket and a client of it."""
    async with (
        FakeCri(SystemClock()) as cri,
        serve(cri, directory / "cri.sock") as endpoint,
        CriClient.connect(endpoint, options) as client,
    ):
        yield cri, client


async def _started(client: CriClient, cri: FakeCri) -> ContainerID:
    cri.add_image("app:1")
    sandbox = await client.run_pod_sandbox(POD)
    container = await client.create_container(sandbox, APP, POD)
    await client.start_container(container)
    return container


async def test_calls_go_over_the_socket(tmp_path: Path) -> None:
    async with served(tmp_path) as (cri, client):
        await _started(client, cri)
        assert [container.metadata.name for container in await client.list_containers()] == ["app"]
        with pytest.raises(NotFound, match="ContainerStatus nope"):
            await client.container_status(ContainerID("nope"))


async def test_replies_up_to_16_mib_are_taken(tmp_path: Path) -> None:
    async with served(tmp_path) as (cri, client):
        cri.script_exec(ExecScript(stdout=b"x" * 15 * 2**20))
        container = await _started(client, cri)
        assert len((await client.exec_sync(container, ["cat"])).stdout) == 15 * 2**20


async def test_missing_socket_raises_transient(tmp_path: Path) -> None:
    async with CriClient.connect(f"unix://{tmp_path}/cri.sock") as client:
        with pytest.raises(Transient, match="Version"):
            await client.version()


async def test_restarted_runtime_is_reconnected(tmp_path: Path) -> None:
    async with FakeCri(SystemClock()) as cri, CriClient.connect(f"{tmp_path}/cri.sock") as client:
        for _ in range(2):
            async with serve(cri, tmp_path / "cri.sock"):
                async with asyncio.timeout(30):
                    while not await _answers(client):
                        pass
            with pytest.raises(Transient):
                await client.version()


@asynccontextmanager
async def _slow(directory: Path, delay: float) -> AsyncIterator[str]:
    """A socket whose connections are let through to the runtime's only after a while, as on a saturated machine."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(delay)
        inner_reader, inner_writer = await asyncio.open_unix_connection(directory / "cri.sock")
        passed_on.append(writer)
        await asyncio.gather(copy(reader, inner_writer), copy(inner_reader, writer))
        passed_on.remove(writer)

    passed_on: list[asyncio.StreamWriter] = []
    server = await asyncio.start_unix_server(serve_one, directory / "slow.sock")
    async with server:
        yield str(directory / "slow.sock")
        await until(lambda: not passed_on)  # they end with the client's


async def test_a_handshake_may_take_its_time(tmp_path: Path) -> None:
    """Attempts that are given up too early never get through while the machine is busy."""
    async with (
        FakeCri(SystemClock()) as cri,
        serve(cri, tmp_path / "cri.sock"),
        _slow(tmp_path, 0.5) as endpoint,
        CriClient.connect(endpoint) as client,
    ):
        assert (await client.version()).runtime_name


async def test_commands_that_pods_keep_from_ending_hold_up_no_other_call(tmp_path: Path) -> None:
    async with served(tmp_path, CriOptions(request_timeout=5)) as (cri, client):
        container = await _started(client, cri)
        cri.inject(Fault("ExecSync", hang=True))
        commands = [asyncio.create_task(client.exec_sync(container, ["sleep"])) for _ in range(MAX_CALLS + 1)]
        await until(lambda: len(cri.calls("ExecSync")) >= MAX_CALLS)
        try:
            assert (await client.version()).runtime_name
        finally:
            await cancel_all(commands)


async def _answers(client: CriClient) -> bool:
    try:
        return bool(await client.version())
    except Transient:
        return False


async def test_a_call_that_hangs_meets_its_deadline(tmp_path: Path) -> None:
    async with served(tmp_path, CriOptions(request_timeout=0.1)) as (cri, client):
        cri.inject(Fault("Version", hang=True))
        with pytest.raises(CriTimeout, match="DEADLINE_EXCEEDED"):
            await client.version()


async def test_cancelling_the_caller_cancels_the_call(tmp_path: Path) -> None:
    async with served(tmp_path) as (cri, client):
        cri.inject(Fault("PullImage", hang=True))
        caller = asyncio.create_task(client.pull_image(APP.image))
        await until(lambda: cri.calls("PullImage") == ["app:1"])
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        async with asyncio.timeout(30):
            while cri.pending:
                await client.version()


async def test_closing_an_event_stream_ends_it_at_the_server_too(tmp_path: Path) -> None:
    async with served(tmp_path) as (cri, client):
        events = client.get_container_events()
        waiting = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(30):
            while not cri.listeners:
                await client.version()
        await client.run_pod_sandbox(POD)
        assert (await waiting).container_event_type == pb.CONTAINER_CREATED_EVENT
        await events.aclose()
        async with asyncio.timeout(30):
            while cri.listeners:
                await client.version()
