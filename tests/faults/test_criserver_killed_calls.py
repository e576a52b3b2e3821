"""SIGKILL of the runtime server during calls about a running pod, which keeps running.

The server is killed at each step of each call, and at any moment of a stream: the client ends, and no command is left.
"""

import asyncio
import json
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest

from pykubelet.base.errors import Transient
from pykubelet.base.spdy import SpdyStream
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.agent import wait_for
from pykubelet.testing.killstage import Pod, Stage
from pykubelet.testing.leakcheck import Kind, snapshot
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.streams import all_of, forward, forwarded, spdy, until

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(900)]

_LIFE = "77.25"
"""Argument of ``sleep`` that makes the command line unique."""
_GET = b"GET /passwd HTTP/1.0\r\n\r\n"
Call: TypeAlias = Callable[[Pod, CriClient], Awaitable[None]]


@pytest.fixture(scope="module")
def running(stage: Stage) -> Iterator[Pod]:
    """One pod for all tests: kills of the server do not affect it."""
    pod = Pod(stage, "first")
    stage.do(pod.up)
    pod.assert_ran_once()
    stage.do(pod.down)
    before = snapshot(stage.scope)
    pod = Pod(stage, "running")
    stage.do(pod.up)
    pod.assert_ran_once()
    yield pod
    stage.server.start()
    stage.do(pod.down)
    stage.assert_no_leaks(before)


async def _update(pod: Pod, client: CriClient) -> None:
    shares = (await client.container_status(pod.container)).status.resources.linux.cpu_shares % 1000 + 100
    await client.update_container_resources(pod.container, pb.LinuxContainerResources(cpu_shares=shares))
    status = (await client.container_status(pod.container, verbose=True)).status
    assert status.resources.linux.cpu_shares == shares


async def _reopen(pod: Pod, client: CriClient) -> None:
    if pod.log.exists():
        pod.log.rename(pod.log.with_suffix(".rotated"))
    await client.reopen_container_log(pod.container)
    assert pod.log.is_file()


async def _exec_sync(pod: Pod, client: CriClient) -> None:
    result = await client.exec_sync(pod.container, ["sh", "-c", "echo hello; sleep 0.1; exit 3"], 20)
    assert (result.stdout, result.exit_code) == (b"hello\n", 3)


@asynccontextmanager
async def _command(pod: Pod, client: CriClient, *command: str) -> AsyncIterator[dict[str, SpdyStream]]:
    request = pb.ExecRequest(container_id=pod.container, cmd=command, stdin=True, stdout=True)
    async with spdy(await client.exec(request), ("error", "stdin", "stdout")) as streams:
        yield streams


async def _exec(pod: Pod, client: CriClient) -> None:
    # A command that has lost its client does not exit by itself.
    command = f'read word; test -n "$word" || exec sleep {_LIFE}; echo got $word'
    async with _command(pod, client, "sh", "-c", command) as streams:
        await streams["stdin"].write(b"it\n")
        await until(streams["stdout"], b"got it\n")
        _assert_success(await all_of(streams["error"]))


async def _attach(pod: Pod, client: CriClient) -> None:
    request = pb.AttachRequest(container_id=pod.container, stdout=True, stderr=True)
    async with spdy(await client.attach(request), ("error", "stdout", "stderr")) as streams:
        await until(streams["stdout"], b"tick\n")


async def _port_forward(pod: Pod, client: CriClient) -> None:
    async with forwarded(await client.port_forward(SandboxID(pod.sandbox), [])) as connection:
        data, _ = await forward(connection, 8080)
        await data.write(_GET)
        await until(data, b"root:x:0:0")


def _assert_success(error_stream: bytes) -> None:
    if not error_stream:
        raise ConnectionError("the stream ended before the status came")
    assert json.loads(error_stream)["status"] == "Success"


@pytest.mark.parametrize("call", [_update, _reopen, _exec_sync, _exec, _attach, _port_forward])
def test_server_killed_at_each_step_of_a_call_keeps_the_pod_running(
    stage: Stage, running: Pod, call: Call, kills: int, luck: random.Random
) -> None:
    """UpdateContainerResources, ReopenContainerLog, ExecSync, Exec, Attach, PortForward."""

    async def act(client: CriClient) -> None:
        await call(running, client)

    total = stage.steps(act)
    before = snapshot(stage.scope).found[Kind.FILE]
    chosen = luck.sample(range(1, total + 1), min(kills, total))
    died = 0
    for step in chosen:
        died += stage.killed(act, step)
        print(f"{died} killed, last step {stage.last_step()}")
        stage.server.start()
        stage.do(act)
        stage.do(running.up)
        _assert_no_command(stage, running)
        left = snapshot(stage.scope).found[Kind.FILE] - before
        assert not left, left
    assert running.runs == 1
    print(f"{died} kills at {len(chosen)} of {total} steps: the pod went on, nothing leaked")
    assert died >= 0.7 * len(chosen) - 1, "the steps are counted wrongly"


def _assert_no_command(stage: Stage, pod: Pod) -> None:
    """AssertionError unless only the program, its child and the web server run."""
    scratch = f"{stage.server.home}/run/tmp"

    def others() -> list[str]:
        own = ("sh -c trap", "sleep 0.3", "httpd")
        inside = [each for each in stage.commands(pod.container) if each and not each.startswith(own)]
        # Calls of the OCI runtime have a directory there.
        outside = [each for each in snapshot(stage.scope).found[Kind.PROCESS] if scratch in each]
        return inside + outside

    wait_for(lambda: not others(), 5, lambda: f"still there: {others()}")


async def _busy_exec(pod: Pod, client: CriClient) -> AsyncIterator[SpdyStream]:
    command = f"trap '' HUP PIPE; echo ready; sleep {_LIFE} > /dev/null; sleep {_LIFE}"
    async with _command(pod, client, "sh", "-c", command) as streams:
        await until(streams["stdout"], b"ready\n")
        yield streams["stdout"]


async def _busy_terminal(pod: Pod, client: CriClient) -> AsyncIterator[SpdyStream]:
    command = ["sh", "-c", f"trap '' HUP; echo ready; sleep {_LIFE}; sleep {_LIFE}"]
    request = pb.ExecRequest(container_id=pod.container, cmd=command, stdin=True, stdout=True, tty=True)
    async with spdy(await client.exec(request), ("error", "stdin", "stdout", "resize")) as streams:
        await until(streams["stdout"], b"ready")
        yield streams["stdout"]


async def _busy_attach(pod: Pod, client: CriClient) -> AsyncIterator[SpdyStream]:
    request = pb.AttachRequest(container_id=pod.container, stdout=True)
    async with spdy(await client.attach(request), ("error", "stdout")) as streams:
        await until(streams["stdout"], b"tick\n")
        yield streams["stdout"]


async def _busy_port_forward(pod: Pod, client: CriClient) -> AsyncIterator[SpdyStream]:
    async with forwarded(await client.port_forward(SandboxID(pod.sandbox), [])) as connection:
        data, _ = await forward(connection, 8080)
        await data.write(b"GET /passwd HTTP/1.1\r\n")
        yield data


@pytest.mark.parametrize("busy", [_busy_exec, _busy_terminal, _busy_attach, _busy_port_forward])
def test_stream_ends_when_its_server_is_killed(
    stage: Stage, running: Pod, busy: Callable[[Pod, CriClient], AsyncIterator[SpdyStream]]
) -> None:
    """The client is disconnected at once; the next server kills the command, and the pod keeps running."""

    async def act(client: CriClient) -> None:
        async for stream in busy(running, client):
            await asyncio.to_thread(stage.server.signal, signal.SIGKILL)
            async with asyncio.timeout(10 * PATIENCE):
                await all_of(stream)

    try:
        stage.do(act)
    except ConnectionError:
        pass  # the end of the session's own connection
    except Transient as error:
        raise AssertionError(f"{error}; the server:\n{stage.server.log.read_text()[-4000:]}") from error
    stage.server.start()
    _assert_no_command(stage, running)
    stage.do(running.up)
    assert running.runs == 1
