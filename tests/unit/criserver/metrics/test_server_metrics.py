"""Metrics of the server: their names and values, and the address where they are served."""

import asyncio
import select
import socket
import stat
import threading
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard, item_failures
from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.http.unauthenticated import MOST
from pykubelet.base.units import Bytes
from pykubelet.criserver.cni import AttachRequest, PodAddresses
from pykubelet.criserver.config import MetricsAddress
from pykubelet.criserver.config.metrics_address import parse_metrics_address
from pykubelet.criserver.metrics.measured_network import MeasuredNetwork
from pykubelet.criserver.metrics.metrics_endpoint import MetricsServer
from pykubelet.criserver.metrics.server_metrics import ServerMetrics
from pykubelet.criserver.types import SandboxID
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import until


def lines(metrics: ServerMetrics) -> dict[str, float]:
    text = metrics.render({("pykubelet_criserver_sandboxes", "Sandboxes."): 2}).decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}


def test_calls_are_counted_by_code_and_successful_ones_are_timed_by_handler() -> None:
    metrics = ServerMetrics(VirtualClock())
    metrics.call("CreateContainer", "runc", "OK", 0.3)
    metrics.call("CreateContainer", "runc", "NOT_FOUND", 0.1)
    metrics.call("ListContainers", "runc", "OK", 0.01)
    metrics.call("GetContainerEvents", "runc", "CANCELLED", 1000.0)
    found = lines(metrics)
    assert found['pykubelet_criserver_calls_total{code="NOT_FOUND",method="CreateContainer"}'] == 1
    assert found['pykubelet_criserver_calls_total{code="CANCELLED",method="GetContainerEvents"}'] == 1
    assert found['pykubelet_criserver_call_duration_seconds_count{method="CreateContainer"}'] == 2
    assert found['containerd_cri_container_create_seconds_count{runtime="runc"}'] == 1
    assert found['containerd_cri_container_create_seconds_bucket{le="0.5",runtime="runc"}'] == 1
    assert found["containerd_cri_container_list_seconds_count"] == 1
    assert 'pykubelet_criserver_call_duration_seconds_count{method="GetContainerEvents"}' not in found
    assert found["pykubelet_criserver_sandboxes"] == 2


def test_pulls_and_programs_are_counted_by_result() -> None:
    metrics = ServerMetrics(VirtualClock())
    metrics.call("PullImage", "runc", "OK", 2.0)
    metrics.call("PullImage", "runc", "UNKNOWN", 2.0)
    metrics.pulled(Bytes(10 << 20), 2.0)
    metrics.pulled(Bytes(0), 2.0)
    observed = metrics.runtime("crun")
    with pytest.raises(Transient), observed("start"):
        raise Transient("no")
    with observed("delete"):
        pass
    found = lines(metrics)
    assert found['containerd_cri_sandboxed_image_pulls_total{status="success"}'] == 1
    assert found['containerd_cri_sandboxed_image_pulls_total{status="failure"}'] == 1
    assert found["pykubelet_criserver_image_pull_bytes_total"] == 10 << 20
    assert found["containerd_cri_sandboxed_image_pulling_throughput_mibps_sum"] == 5
    assert found["containerd_cri_sandboxed_image_pulling_throughput_mibps_count"] == 1
    labels = 'operation="start",result="failure",runtime="crun"'
    assert found[f"pykubelet_criserver_runtime_operation_duration_seconds_count{{{labels}}}"] == 1
    labels = 'operation="delete",result="success",runtime="crun"'
    assert found[f"pykubelet_criserver_runtime_operation_duration_seconds_count{{{labels}}}"] == 1


async def test_failing_items_and_hung_calls_are_counted_as_those_of_the_agent() -> None:
    guard = Guard("test.metrics", VirtualClock().monotonic)
    before, hung_before = item_failures()["test.metrics"], blocking.hung_total().get("test", 0)
    with guard.item("container"):
        raise OSError(5, "Input/output error")
    release = threading.Event()
    with pytest.raises(Transient):
        await blocking.call("test/one", release.wait, deadline=0.01)
    prefix = "pykubelet_criserver_"
    found = lines(ServerMetrics(VirtualClock()))
    assert found[f'{prefix}item_failures_total{{loop="test.metrics"}}'] - before == 1
    assert found[f'{prefix}hung_blocking_calls_total{{owner="test"}}'] - hung_before == 1
    assert found[f"{prefix}hung_blocking_calls_now"] >= 1
    release.set()
    await until(lambda: "test/one" not in {each.owner for each in blocking.hung()})


class Network:
    """A network whose detachments fail."""

    async def attach(self, request: AttachRequest) -> PodAddresses:
        return PodAddresses(("10.0.0.2",))

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        raise Transient("no")

    async def check(self, sandbox: SandboxID) -> None:
        return

    def held(self) -> list[SandboxID]:
        return []

    async def collect_garbage(self, used: object) -> None:
        return


async def test_network_operations_have_the_names_of_containerd() -> None:
    metrics = ServerMetrics(VirtualClock())
    network = MeasuredNetwork(network=Network(), metrics=metrics)
    request = AttachRequest(SandboxID("s"), "/n", "ns", "pod", "uid")
    assert (await network.attach(request)).ips == ("10.0.0.2",)
    with pytest.raises(Transient):
        await network.detach(SandboxID("s"))
    found, base = lines(metrics), "containerd_cri_network_plugin_operations"
    assert found[f'{base}_total_total{{operation_type="set_up_pod"}}'] == 1
    assert found[f'{base}_errors_total_total{{operation_type="tear_down_pod"}}'] == 1
    assert found[f'{base}_duration_seconds_seconds_count{{operation_type="tear_down_pod"}}'] == 1
    assert found["containerd_cri_sandbox_create_network_seconds_count"] == 1
    assert found["containerd_cri_sandbox_delete_network_seconds_count"] == 0


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


async def test_socket_is_for_root_only_and_replaces_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "run" / "m.sock"

    async def render() -> bytes:
        return b"pykubelet_criserver_sandboxes 1.0\n"

    for _ in range(2):  # the first server leaves its socket behind
        task = asyncio.create_task(MetricsServer(MetricsAddress(path=path), render).run())
        try:
            await until(partial(_listens, path))
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            async with (
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
                session.get("http://localhost/metrics") as reply,
            ):
                assert (reply.status, await reply.read()) == (200, b"pykubelet_criserver_sandboxes 1.0\n")
                assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_idle_connections_are_limited_and_requests_are_served_meanwhile() -> None:
    async def render() -> bytes:
        return b"pykubelet_criserver_sandboxes 1.0\n"

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    task = asyncio.create_task(MetricsServer(MetricsAddress("127.0.0.1", port), render).run())
    idle: list[socket.socket] = []

    async def open_one() -> None:
        made = socket.socket()
        made.setblocking(False)
        idle.append(made)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))

    def closed() -> int:
        watch = select.poll()
        for each in idle:
            watch.register(each, select.POLLIN)
        return len(watch.poll(0))

    try:
        await until(lambda: _accepts(port))
        for _ in range(MOST + 20):
            await open_one()
        await until(lambda: closed() >= 20)
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as reply:
            assert reply.status == 200
    finally:
        for each in idle:
            each.close()
        task.cancel()
        await asyncio.wait({task})


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("text", ["0.0.0.0:1", "10.0.0.1:80", "127.0.0.1", "127.0.0.1:0", "localhost:80", "m.sock"])
def test_addresses_that_others_reach_are_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="loopback"):
        parse_metrics_address(text)


def test_loopback_addresses_and_sockets_are_accepted() -> None:
    assert parse_metrics_address("") is None
    assert parse_metrics_address("[::1]:94") == MetricsAddress("::1", 94)
    assert parse_metrics_address("127.0.0.2:94") == MetricsAddress("127.0.0.2", 94)
    assert parse_metrics_address("/run/m.sock") == MetricsAddress(path=Path("/run/m.sock"))
