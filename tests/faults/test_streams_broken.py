"""Clients of exec, attach and port-forward that disconnect at any moment, or never read: nothing may accumulate."""

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from pykubelet.base.http.upgrade import request_head, request_upgrade
from pykubelet.base.spdy import SpdyConnection, StreamLink
from pykubelet.base.units import KIB, MIB
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.wait import nothing_within
from tests.manifests import container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(300)]

_SERVING = (
    "mkdir -p /www; head -c 300000 /dev/zero > /www/big; httpd -p 8080 -h /www; while :; do echo t; sleep 0.1; done"
)
_AT_ONCE = 10
_GROWTH = 16 * MIB
"""Permitted memory growth of one daemon: needed by concurrent sessions, independent of their total number."""
_POD = "/api/v1/namespaces/default/pods/broken-testnode"
_INPUT = f"{_POD}/exec?{urlencode({'command': 'cat', 'stdin': 'true', 'stdout': 'true'})}"
_FLOOD = f"{_POD}/exec?command=cat&command=/dev/zero&stdout=true"
_ATTACH = f"{_POD}/attach?stdout=true&stderr=true"
_FORWARD = f"{_POD}/portforward"
_KINDS = {
    _INPUT: ({"streamtype": "error"}, {"streamtype": "stdin"}, {"streamtype": "stdout"}),
    _ATTACH: ({"streamtype": "error"}, {"streamtype": "stdout"}, {"streamtype": "stderr"}),
    _FORWARD: tuple({"streamtype": kind, "port": "8080", "requestid": "1"} for kind in ("error", "data")),
}


@pytest.fixture(scope="module", autouse=True)
def shown(agent: AgentProcess) -> Iterator[None]:
    """The pod that the streams connect to."""
    agent.write("broken.json", pod("broken", container(command=["sh", "-c", _SERVING])))
    agent.wait_running("broken")
    yield
    (agent.manifests / "broken.json").unlink()


def _descriptors(*pids: int) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * KIB for line in lines if line.startswith("VmRSS"))


async def _upgrade(agent: AgentProcess, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    protocol = "portforward.k8s.io" if path == _FORWARD else "v4.channel.k8s.io"
    reader, writer = await asyncio.open_unix_connection(str(agent.socket))
    headers = [("Host", "localhost"), ("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")]
    answer = await request_upgrade(
        reader, writer, request_head("POST", path, [*headers, ("X-Stream-Protocol-Version", protocol)])
    )
    assert answer.status == 101, answer.text
    return reader, writer


async def _vanish(agent: AgentProcess, path: str, delay: float) -> None:
    """A client whose process is killed, so that it does not close the session."""
    reader, writer = await _upgrade(agent, path)
    try:
        async with (
            asyncio.timeout(delay + 20 * PATIENCE),
            SpdyConnection.over(StreamLink(reader, writer)) as connection,
        ):
            streams = [await connection.open(headers) for headers in _KINDS[path]]
            if path == _FORWARD:
                await streams[1].write(b"GET /big HTTP/1.0\r\n\r\n")
            await asyncio.sleep(delay)
            writer.transport.abort()
    except ConnectionError:
        return


@pytest.mark.timeout(3600)
async def test_disconnected_clients_leave_nothing(
    agent: AgentProcess, daemon: PrivateRuntime, luck: random.Random, disconnects: int
) -> None:
    paths = list(_KINDS)
    for path in paths:
        await _vanish(agent, path, 0.1)
    # containerd 1.6 leaks some for sessions that were interrupted at their start.
    ours = daemon.name != "containerd"
    watched = [pid for pid in (agent.pid, daemon.pid() if ours else None) if pid is not None]
    before, memory = _descriptors(*watched), [_resident(pid) for pid in watched]
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(path: str, delay: float) -> None:
        async with room:
            await _vanish(agent, path, delay)

    async with asyncio.TaskGroup() as group:
        for _ in range(disconnects):
            group.create_task(one(luck.choice(paths), luck.random() * 0.2))
    deadline = time.monotonic() + 60 * PATIENCE
    while (now := _descriptors(*watched)) > before + 4:
        assert time.monotonic() < deadline, f"{now} descriptors are open, before {before}"
        await asyncio.sleep(0.2)
    grown = [_resident(pid) - was for pid, was in zip(watched, memory, strict=True)]
    print(f"{disconnects} clients vanished; resident memory grew by {[each // KIB for each in grown]} KiB")
    assert max(grown) < _GROWTH, f"resident memory grew by {grown}"
    if ours:
        done = await asyncio.to_thread(agent.cli, "exec", "broken", "--", "sh", "-c", "ps | grep -c '[c]at$'; true")
        assert done.stdout.strip() == "0"


async def test_client_that_does_not_read_blocks_its_command(agent: AgentProcess, daemon: PrivateRuntime) -> None:
    """The command blocks; neither daemon buffers its output."""
    runtime = daemon.pid()
    assert runtime is not None
    before = _resident(agent.pid), _resident(runtime)
    for _ in range(4):
        reader, writer = await _upgrade(agent, _FLOOD)
        try:
            link = StreamLink(reader, writer)
            async with SpdyConnection.over(link) as connection:
                streams = [await connection.open({"streamtype": kind}) for kind in ("error", "stdout")]
                assert (await streams[1].read()).strip(b"\0") == b""
                await nothing_within(
                    lambda: _resident(agent.pid) - before[0] >= 16 * MIB or _resident(runtime) - before[1] >= 32 * MIB,
                    1.0,
                )
                writer.transport.abort()
        except ConnectionError:
            continue
