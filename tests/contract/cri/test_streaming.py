"""Contract of a runtime's streaming server: SPDY directly, and v5 through the agent's proxy."""

import asyncio
import json
import os
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from pykubelet.kubelet.serve.streams import StreamProxy, StreamSet
from pykubelet.kubelet.serve.streams.stream_backend import connected
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.streams import V4, all_of, forward, forwarded, spdy, until
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until_answer
from tests.contract.cri.rig import CGROUP, ENDPOINT, HAVE_REAL, Program, Runtime

V5 = "v5.channel.k8s.io"
_WEB = "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 127.0.0.1:8080 -h /www"
_LINES = "while read line; do echo got $line; echo error $line >&2; done; echo ended"
SERVING = Program("serving", ("sh", "-c", _WEB), Script())
READING = Program("reading", ("sh", "-c", _LINES), Script())
OUTPUT = StreamSet(stdout=True, stderr=True)
INPUT = StreamSet(stdin=True, stdout=True)
TERMINAL = StreamSet(stdin=True, stdout=True, tty=True)


@pytest.fixture(
    params=[
        pytest.param(
            "real",
            marks=[
                pytest.mark.runtime,
                pytest.mark.skipif(not HAVE_REAL, reason="streams need a real runtime: tests/integration runs these"),
            ],
        )
    ]
)
async def endpoint() -> AsyncIterator[str]:
    """The fake runtime has no streaming server."""
    yield os.environ[ENDPOINT]
    remove_cgroups(CGROUP)


_SIZED = b'until [ "$(stty size)" = "27 $((91))" ]; do sleep 0.05; done; '
"""Shell command that waits for the size, which may be set after the input. The terminal's echo does not contain it."""


async def _exec_url(runtime: Runtime, container: ContainerID, command: Sequence[str], streams: StreamSet) -> str:
    asked = {"stdin": streams.stdin, "stdout": streams.stdout, "stderr": streams.stderr, "tty": streams.tty}
    return await runtime.client.exec(pb.ExecRequest(container_id=container, cmd=command, **asked))


async def _succeeds(runtime: Runtime, container: ContainerID, *command: str) -> None:
    """Retry until it succeeds."""

    async def succeeded() -> bool:
        return (await runtime.client.exec_sync(container, command, 10)).exit_code == 0

    await until_answer(succeeded)


async def test_exec_returns_output_and_exit_code(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    url = await _exec_url(runtime, container, ("sh", "-c", "echo out; echo err >&2; exit 5"), OUTPUT)
    async with spdy(url, ("stdout", "error", "stderr")) as streams:
        assert (await all_of(streams["stdout"]), await all_of(streams["stderr"])) == (b"out\n", b"err\n")
        status = json.loads(await all_of(streams["error"]))
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]


async def test_exec_passes_input_and_its_end(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    async with spdy(await _exec_url(runtime, container, ("cat",), INPUT), ("error", "stdin", "stdout")) as streams:
        data = os.urandom(300_000)

        async def write() -> None:
            await streams["stdin"].write(data)
            streams["stdin"].finish()

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            assert await all_of(streams["stdout"]) == data
        assert json.loads(await all_of(streams["error"]))["status"] == "Success"


async def test_exec_with_a_terminal_follows_its_size(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    url = await _exec_url(runtime, container, ("sh",), TERMINAL)
    async with spdy(url, ("error", "stdin", "stdout", "resize")) as streams:
        await until(streams["stdout"], b"# ")
        await streams["resize"].write(b'{"Width":91,"Height":27}\n')
        await streams["stdin"].write(_SIZED + b"stty size; exit 4\n")
        assert b"27 91" in await all_of(streams["stdout"])
        assert json.loads(await all_of(streams["error"]))["details"]["causes"][0]["message"] == "4"


async def test_exec_of_missing_command_fails(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    url = await _exec_url(runtime, container, ("no-such-program",), OUTPUT)
    async with spdy(url, ("error", "stdout", "stderr")) as streams:
        status = json.loads(await all_of(streams["error"]))
    assert status["status"] == "Failure"
    assert "no-such-program" in status["message"]


async def test_older_protocols_report_failures_as_text(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    url = await _exec_url(runtime, container, ("false",), OUTPUT)
    async with spdy(url, ("error", "stdout", "stderr"), "v3.channel.k8s.io") as streams:
        assert b"exit code" in await all_of(streams["error"])


async def _messages(url: str, protocol: str, *given: bytes) -> dict[int, bytes]:
    """Send data on channels and read each channel until the other side closes; base64 if the protocol uses it."""
    got: dict[int, bytes] = {}
    text = "base64." in protocol
    protocols = (protocol,) if protocol else ()
    async with (
        asyncio.timeout(30 * PATIENCE),
        aiohttp.ClientSession() as session,
        session.ws_connect(url, protocols=protocols) as socket,
    ):
        assert (socket.protocol or "") == protocol
        for data in given:
            await (socket.send_str(f"{data[0]}{b64encode(data[1:]).decode()}") if text else socket.send_bytes(data))
        async for message in socket:
            channel = int(message.data[0])
            data = b64decode(message.data[1:]) if text else message.data[1:]
            got[channel] = got.get(channel, b"") + data
    return got


@pytest.mark.parametrize(
    "protocol", ["", "channel.k8s.io", "base64.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io", V5]
)
async def test_every_protocol_of_websockets(runtime: Runtime, protocol: str) -> None:
    container = await runtime.start(SERVING)
    command = ("sh", "-c", "read word; echo got $word; echo error >&2; exit 3")
    streams = StreamSet(stdin=True, stdout=True, stderr=True)
    url = await _exec_url(runtime, container, command, streams)
    if protocol == V5 and not await runtime.is_ours():
        with pytest.raises(aiohttp.ClientError):
            await _messages(url, protocol)
        return
    got = await _messages(url, protocol, b"\0hello\n")
    assert (got[1], got[2]) == (b"got hello\n", b"error\n")
    if protocol.startswith(("v4.", "v5.")):
        assert json.loads(got[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    else:
        assert b"3" in got[3]


async def test_port_forward_over_websockets(runtime: Runtime) -> None:
    """Each port has a pair of channels, which begin with the port number."""
    sandbox = await runtime.sandbox()
    container = await runtime.create(sandbox, SERVING)
    await runtime.client.start_container(container)
    await _succeeds(runtime, container, "grep", ":1F90", "/proc/net/tcp")
    url = await runtime.client.port_forward(sandbox, [8080])
    got = await _messages(url, "v4.channel.k8s.io", b"\0GET /index.html HTTP/1.0\r\n\r\n")
    port = (8080).to_bytes(2, "little")
    assert got[0].startswith(port) and got[0].endswith(b"hello\n") and got[1] == port


async def test_url_works_once_and_only_for_its_stream_type(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    url = await _exec_url(runtime, container, ("true",), OUTPUT)
    async with connected(url) as backend:
        assert (await backend.spdy("v99.channel.k8s.io")).status == 403
    async with connected(url) as backend:
        assert (await backend.spdy(V4)).status == 404


async def test_a_command_outlives_its_client(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    url = await _exec_url(runtime, container, ("sh", "-c", "cat; sleep 1; touch /over; sleep 77"), INPUT)
    async with spdy(url, ("error", "stdin", "stdout")) as streams:
        await streams["stdin"].write(b"x")
        assert await streams["stdout"].read() == b"x"
    await _succeeds(runtime, container, "test", "-e", "/over")
    assert (await runtime.client.exec_sync(container, ["sh", "-c", "ps | grep 'slee[p] 77'"], 10)).exit_code == 0


async def test_attach_carries_input_and_output_of_the_container(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    config = runtime.container_config(READING)
    config.stdin = config.stdin_once = True
    container = await runtime.client.create_container(sandbox, config, runtime.pod_config())
    await runtime.client.start_container(container)
    request = pb.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    async with spdy(await runtime.client.attach(request), ("error", "stdin", "stdout", "stderr")) as streams:
        await streams["stdin"].write(b"one\n")
        assert await until(streams["stdout"], b"got one\n") == b"got one\n"
        assert await until(streams["stderr"], b"error one\n") == b"error one\n"
        streams["stdin"].finish()
        assert await all_of(streams["stdout"]) == b"ended\n"
        assert json.loads(await all_of(streams["error"]))["status"] == "Success"
    assert (await runtime.ended(container)).exit_code == 0


async def test_stdin_stays_open_when_its_client_finishes(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    config = runtime.container_config(READING)
    config.stdin = True
    container = await runtime.client.create_container(sandbox, config, runtime.pod_config())
    await runtime.client.start_container(container)
    request = pb.AttachRequest(container_id=container, stdin=True, stdout=True)
    for words in (b"one\n", b"two\n"):
        async with spdy(await runtime.client.attach(request), ("error", "stdin", "stdout")) as streams:
            await streams["stdin"].write(words)
            assert await until(streams["stdout"], b"got " + words) == b"got " + words
            streams["stdin"].finish()
            assert await all_of(streams["stdout"]) == b""
            assert json.loads(await all_of(streams["error"]))["status"] == "Success"
    assert (await runtime.status(container)).state == pb.CONTAINER_RUNNING


async def test_port_forward_answers_each_port_and_reports_a_refused_one(runtime: Runtime) -> None:
    sandbox = await runtime.sandbox()
    container = await runtime.create(sandbox, SERVING)
    await runtime.client.start_container(container)
    # The port in hexadecimal.
    await _succeeds(runtime, container, "grep", ":1F90", "/proc/net/tcp")
    async with forwarded(await runtime.client.port_forward(sandbox, [])) as connection:
        for number, (port, answer, failure) in enumerate(
            [(8080, b"hello\n", b""), (9, b"", b"refused"), (8080, b"hello\n", b"")]
        ):
            data, error = await forward(connection, port, number)
            if answer:
                await data.write(b"GET /index.html HTTP/1.0\r\n\r\n")
            assert (await all_of(data)).endswith(answer)
            data.finish()
            words = await all_of(error)
            assert (failure in words) if failure else words == b""


@asynccontextmanager
async def _proxied(
    runtime: Runtime, container: ContainerID, command: Sequence[str], streams: StreamSet
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A v5 client behind the agent's proxy."""
    proxy = StreamProxy()

    async def handler(request: web.Request) -> web.StreamResponse:
        return await proxy.command(request, lambda: _exec_url(runtime, container, command, streams), streams)

    application = web.Application()
    application.router.add_get("/exec", handler)
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/exec"
        async with asyncio.timeout(30), aiohttp.ClientSession() as session:
            # The second time the proxy knows the runtime's protocol.
            async with session.ws_connect(url, protocols=(V5,)) as first:
                await first.receive()
            async with session.ws_connect(url, protocols=(V5,)) as socket:
                assert socket.protocol == V5
                yield socket
    finally:
        await runner.cleanup()


async def test_v5_closes_stdin(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    got: dict[int, bytes] = {}
    async with _proxied(runtime, container, ("sh", "-c", "cat; exit 6"), INPUT) as socket:
        await socket.send_bytes(b"\0hello")
        await socket.send_bytes(b"\xff\0")
        async for message in socket:
            got[message.data[0]] = got.get(message.data[0], b"") + message.data[1:]
    assert got[1] == b"hello"
    assert json.loads(got[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "6"}]


async def test_exec_by_v5_with_a_terminal_follows_its_size(runtime: Runtime) -> None:
    container = await runtime.start(SERVING)
    seen = b""
    async with _proxied(runtime, container, ("sh",), TERMINAL) as socket:
        await socket.send_bytes(b'\4{"Width":91,"Height":27}')
        await socket.send_bytes(b"\0" + _SIZED + b"stty size; exit\n")
        async for message in socket:
            seen += message.data[1:] if message.data[0] == 1 else b""
    assert b"27 91" in seen
