"""/healthz and /metrics over TCP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import aiohttp
import pytest
from msgspec.structs import replace
from yarl import URL

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.serve.common.health import HealthServer
from pykubelet.kubelet.serve.common.server_interfaces import HealthConfig, HealthDeps
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.telemetry import telemetry
from tests.unit.kubelet.serve.common.flood import silent_connections

CONFIG = HealthConfig(port=0)


class Checks:
    def __init__(self) -> None:
        self.faults: dict[str, str | None] = {"ping": None, "pleg": None, "syncloop": None}
        self.metrics = KubeletMetrics(node_name="node-1", clock=VirtualClock())
        self.deps = HealthDeps(
            checks={name: partial(self.faults.get, name) for name in self.faults},
            render_metrics=self.metrics.render,
            render_probe_metrics=self.metrics.render_probes,
            telemetry=telemetry(SystemClock(), self.metrics.http),
        )


@asynccontextmanager
async def serving(checks: Checks, address: str = "127.0.0.1") -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    server = HealthServer(replace(CONFIG, address=address), checks.deps)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        await server.serving.wait()
        try:
            async with aiohttp.ClientSession() as client:
                yield client, f"http://127.0.0.1:{server.port}"
        finally:
            task.cancel()


async def get(client: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with client.get(url) as response:
        return response.status, await response.text()


async def test_health_of_a_healthy_agent_is_ok() -> None:
    async with serving(Checks()) as (client, base):
        assert await get(client, f"{base}/healthz") == (200, "ok")
        assert await get(client, f"{base}/healthz/syncloop") == (200, "ok")
        assert await get(client, f"{base}/healthz?verbose") == (
            200,
            "[+]ping ok\n[+]pleg ok\n[+]syncloop ok\nhealthz check passed\n",
        )


async def test_health_with_a_failed_check_is_500_with_its_message() -> None:
    checks = Checks()
    checks.faults["pleg"] = "pleg was last seen active 4m0s ago; threshold is 3m0s"
    async with serving(checks) as (client, base):
        assert await get(client, f"{base}/healthz") == (
            500,
            "[+]ping ok\n[-]pleg failed: pleg was last seen active 4m0s ago; threshold is 3m0s\n"
            "[+]syncloop ok\nhealthz check failed\n",
        )
        assert (await get(client, f"{base}/healthz/pleg"))[0] == 500
        assert await get(client, f"{base}/healthz/syncloop") == (200, "ok")


async def test_metrics_are_served_as_prometheus_text() -> None:
    checks = Checks()
    async with serving(checks) as (client, base):
        async with client.get(f"{base}/metrics") as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = await response.text()
        assert 'kubelet_node_name{node="node-1"} 1.0' in text
        async with client.get(f"{base}/metrics/probes") as response:
            assert "prober_probe_total" in await response.text()


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/healthz/none", 404),
        ("GET", "/", 404),
        ("GET", "/pods", 404),
        ("GET", "/api/v1/pods", 404),
        ("POST", "/healthz", 405),
        ("DELETE", "/metrics", 405),
    ],
)
async def test_nothing_else_is_served(method: str, path: str, code: int) -> None:
    async with serving(Checks()) as (client, base), client.request(method, f"{base}{path}") as response:
        assert response.status == code
        assert (await response.json())["code"] == code


async def test_a_port_that_is_taken() -> None:
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    async with taken:
        port = taken.sockets[0].getsockname()[1]
        with pytest.raises(Permanent, match="healthzPort"):
            await HealthServer(HealthConfig(port=port), Checks().deps).run()


@pytest.mark.parametrize("path", ["/%6detrics", "//metrics", "/healthz/../metrics", "/metrics%00"])
async def test_path_in_another_spelling_is_refused(path: str) -> None:
    async with serving(Checks()) as (client, base), client.get(URL(base + path, encoded=True)) as response:
        assert response.status == 400
        assert "normal form" in (await response.json())["message"]


@pytest.mark.parametrize("address", ["0.0.0.0", "::", ""])
async def test_metrics_on_an_address_that_others_reach_are_refused(address: str) -> None:
    async with serving(Checks(), address) as (client, base):
        for path in ("/metrics", "/metrics/probes"):
            status, text = await get(client, base + path)
            assert (status, "kubelet_node_name" in text, "healthzBindAddress" in text) == (403, False, True)
        assert await get(client, f"{base}/healthz") == (200, "ok")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "localhost"])
async def test_metrics_on_loopback_are_served(address: str) -> None:
    async with serving(Checks(), address) as (client, base):
        status, text = await get(client, f"{base.replace('127.0.0.1', address)}/metrics")
        assert (status, "kubelet_node_name" in text) == (200, True)


async def test_silent_connections_do_not_keep_healthz_from_being_answered() -> None:
    async with serving(Checks()) as (client, base):
        port = int(base.rpartition(":")[2])
        async with silent_connections(("127.0.0.1", port), CONFIG.connections.total + 20):
            assert await get(client, f"{base}/healthz") == (200, "ok")


async def test_scrapes_that_are_not_read_do_not_keep_healthz_from_being_answered() -> None:
    checks = Checks()
    checks.deps = replace(checks.deps, render_metrics=lambda: b"x" * 8_000_000)
    async with serving(checks) as (client, base), AsyncExitStack() as stack:
        host, port = "127.0.0.1", int(base.rpartition(":")[2])
        for _ in range(CONFIG.slots.short):
            _, writer = await asyncio.open_connection(host, port)
            stack.callback(writer.close)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            while (await get(client, f"{base}/metrics/probes"))[0] != 429:  # until all answers are being sent
                pass
        assert await get(client, f"{base}/healthz") == (200, "ok")
