"""Messages of the daemons to systemd, received on a socket in its place."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

READY = "READY=1\nSTATUS=Serving"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(30 * PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def test_agent_tells_systemd_that_it_serves_works_and_stops(
    manager: socket.socket, isolation: Isolation, daemon: PrivateRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1500000")
    agent = AgentProcess(isolation.home / "service", daemon.endpoint, isolation.cgroup_root)
    try:
        agent.start()
        reported = [manager.recv(256).decode() for _ in range(4)]
        assert reported == [READY, "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]
        variables = Path(f"/proc/{agent.pid}/environ")
        assert b"WATCHDOG_USEC" in variables.read_bytes(), "it was given at the start"
        os.kill(agent.pid, signal.SIGSTOP)
        manager.settimeout(0)
        wait_for(lambda: is_empty(manager), 20, agent.log_tail)
        os.kill(agent.pid, signal.SIGCONT)
        manager.settimeout(30 * PATIENCE)
        assert manager.recv(256) == b"WATCHDOG=1"
        assert agent.stop() == 0
        while (state := manager.recv(256)) == b"WATCHDOG=1":
            pass
        assert state.startswith(b"STOPPING=1")
    finally:
        agent.destroy()


def test_agent_killed_by_the_watchdog_leaves_the_stacks_of_its_threads(
    manager: socket.socket, isolation: Isolation, daemon: PrivateRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1500000")
    agent = AgentProcess(isolation.home / "service", daemon.endpoint, isolation.cgroup_root)
    try:
        agent.start()
        assert [manager.recv(256).decode() for _ in range(2)] == [READY, "WATCHDOG=1"]
        assert agent.process is not None
        os.kill(agent.pid, signal.SIGABRT)
        assert agent.process.wait(timeout=30 * PATIENCE) == -signal.SIGABRT
        assert "Fatal Python error: Aborted" in agent.log_tail(1 << 20)
    finally:
        agent.destroy()


def is_empty(receiver: socket.socket) -> bool:
    try:
        receiver.recv(256)
    except BlockingIOError:
        return True
    return False


def test_agent_with_a_short_watchdog_ends_with_an_error(
    isolation: Isolation, daemon: PrivateRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    agent = AgentProcess(isolation.home / "service", daemon.endpoint, isolation.cgroup_root)
    try:
        agent.start(wait=False)
        assert agent.process is not None
        assert agent.process.wait(timeout=30 * PATIENCE) == 2
        assert "configure watchdog timeout too small: 1s" in agent.log_tail()
    finally:
        agent.destroy()


def test_runtime_server_tells_systemd_that_it_serves_works_and_stops(
    manager: socket.socket, isolation: Isolation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1500000")
    server = PrivateCriServer(isolation.home / "h", f"{isolation.bridge}h", isolation.further_subnet("h"))
    try:
        server.start()
        reported = [manager.recv(256).decode() for _ in range(3)]
        assert reported == [READY, "WATCHDOG=1", "WATCHDOG=1"]
        server.stop()
        while (state := manager.recv(256)) == b"WATCHDOG=1":
            pass
        assert state.startswith(b"STOPPING=1")
    finally:
        server.destroy()
