"""Ports that are open before the servers serve."""

import asyncio
import socket
import threading
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Permanent
from pykubelet.kubelet.compose.live_settings.held_ports import held_ports
from pykubelet.kubelet.config import KubeletConfiguration, Settings
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.kubelet.serve.common.health import HealthServer
from pykubelet.kubelet.serve.common.server_interfaces import HealthConfig, HealthDeps
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.telemetry import telemetry


def settings(**fields: Any) -> Settings:
    config = replace(KubeletConfiguration(), address="127.0.0.1", **fields)
    return Settings("n", config, "unix:///none")


async def test_request_that_came_before_the_server_is_answered_by_it() -> None:
    port, metrics = free_port(), KubeletMetrics(node_name="n", clock=SystemClock())
    deps = HealthDeps(
        checks={},
        render_metrics=metrics.render,
        render_probe_metrics=metrics.render_probes,
        telemetry=telemetry(SystemClock(), metrics.http),
    )
    with held_ports(settings(healthz_port=port, port=0)) as held:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.0\r\nHost: n\r\n\r\n")
        await writer.drain()
        server = HealthServer(HealthConfig("127.0.0.1", port), deps, listen=held.listen)
        serving = asyncio.create_task(server.run())
        assert (await reader.readline()).split()[1] == b"200"
        writer.close()
        serving.cancel()
        await asyncio.wait([serving])
        # The server has closed its socket, and opens another one if it is run again.
        with held.listen("127.0.0.1", port, "p", "r"):
            pass


def test_ports_of_all_servers_are_open_until_the_end() -> None:
    ports = {name: free_port() for name in ("healthz_port", "port", "read_only_port")}
    with held_ports(settings(enable_server=True, **ports)) as held:
        assert [(port.field, port.number) for port in held.ports] == [
            ("healthzPort", ports["healthz_port"]),
            ("port", ports["port"]),
            ("readOnlyPort", ports["read_only_port"]),
        ]
        for number in ports.values():
            socket.create_connection(("127.0.0.1", number), 20).close()
    for number in ports.values():
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", number), 20)


class Timer(threading.Timer):
    """A timer whose time comes when the test says so."""

    made: ClassVar[list["Timer"]] = []

    def start(self) -> None:
        self.made.append(self)


def test_ports_are_closed_when_the_start_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients would hang as long as the start: for a certificate that someone has to approve, for example."""
    monkeypatch.setattr(threading, "Timer", Timer)
    monkeypatch.setattr(Timer, "made", [])
    port = free_port()
    with held_ports(settings(healthz_port=port, port=0)) as held:
        (timer,) = Timer.made
        assert timer.daemon and timer.interval == 30.0
        with socket.create_connection(("127.0.0.1", port), 20) as client:
            client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            timer.function()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 20)
        # The server opens the port itself when it comes to that.
        with held.listen("127.0.0.1", port, "p", "r"):
            timer.function()
            socket.create_connection(("127.0.0.1", port), 20).close()
    assert timer.finished.is_set()


def test_ports_that_are_off_or_taken_are_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        with held_ports(settings(enable_server=False, healthz_port=taken, port=free_port())) as held:
            assert held.ports == ()
            with pytest.raises(Permanent, match=f"cannot listen on 127.0.0.1:{taken} for health"):
                held.listen("127.0.0.1", taken, "health", "choose another")
