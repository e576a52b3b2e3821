"""Failing disks of the agent: pods and agent keep running, and the agent can be restarted."""

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pykubelet.base.units import MIB, Bytes
from pykubelet.linux.filesystems import mounts
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver"), pytest.mark.timeout(240)]

_NO_CONTAINER = "f" * 64
Fault = Callable[[Path], AbstractContextManager[None]]
_FLAGS = ("--log-level", "debug")


@pytest.fixture
def agent(isolation: Isolation, daemon: PrivateRuntime) -> Iterator[AgentProcess]:
    """An agent whose root directory and logs are on separate small file systems, with one running pod."""
    made = AgentProcess(isolation.home / "disks", daemon.endpoint, f"{isolation.cgroup_root}-disks", flags=_FLAGS)
    logs = made.pod_logs.parent
    try:
        for directory in (made.root, logs):
            directory.mkdir(parents=True)
            mounts.tmpfs(str(directory), size=Bytes(16 * MIB), mode=0o711)
        made.start()
        traces = NodeTraces(made, daemon)
        made.write("one.json", pod("one"))
        made.wait_running("one")
        yield made
        made.remove_all_pods()
        traces.assert_none_left()
        assert made.stop() == 0, made.log_tail()
    finally:
        made.destroy()


@contextlib.contextmanager
def _read_only(directory: Path) -> Iterator[None]:
    """As after errors=remount-ro: open files stay writable, all others are read-only."""
    mounts.bind(str(directory), str(directory), read_only=True)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            (directory / "probe").touch()
        yield
    finally:
        mounts.unmount(str(directory), lazy=True)


@contextlib.contextmanager
def _full(directory: Path) -> Iterator[None]:
    filler = directory / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size):
                        continue
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def _dead_file_system(directory: Path) -> Iterator[None]:
    """A FUSE mount whose server has exited: every access fails."""
    directory.mkdir(exist_ok=True)
    server = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    try:
        mounts.mount("dead", str(directory), "fuse", data=f"fd={server},rootmode=40000,user_id=0,group_id=0")
    finally:
        os.close(server)
    try:
        with pytest.raises(OSError, match=os.strerror(errno.ENOTCONN)):
            next(directory.iterdir())
        yield
    finally:
        mounts.unmount(str(directory), lazy=True)


def _log_of_a_pod_that_is_gone(agent: AgentProcess) -> Path:
    """An orphan: a pod's directory and the link to its log."""
    directory = agent.pod_logs / "default_gone_0000"
    (directory / "main").mkdir(parents=True)
    (directory / "main" / "0.log").write_bytes(b"")
    link = agent.container_logs / f"gone_default_main-{_NO_CONTAINER}.log"
    link.symlink_to(directory / "main" / "0.log")
    return directory


def _identity(agent: AgentProcess) -> object:
    main = container_status(agent.wait_pod("one", is_ready))
    assert main.restart_count == 0
    return main.container_id


def _came_up_and_swept(agent: AgentProcess) -> None:
    """Restart the agent and wait until it has tried to remove the orphan."""
    size = agent.log.stat().st_size
    agent.start()

    def swept() -> bool:
        assert agent.process is not None
        assert agent.process.poll() is None, f"the agent ended with {agent.process.poll()}:\n{agent.log_tail()}"
        return b"housekeeping: round ended" in agent.log.read_bytes()[size:]

    wait_for(swept, 30, agent.log_tail)


def test_agent_with_read_only_logs_keeps_pods_and_restarts(agent: AgentProcess) -> None:
    before = _identity(agent)
    gone = _log_of_a_pod_that_is_gone(agent)
    with _read_only(agent.pod_logs.parent):
        agent.stop()
        _came_up_and_swept(agent)
        assert _identity(agent) == before
        assert gone.exists()
    agent.stop()
    _came_up_and_swept(agent)
    wait_for(lambda: not gone.exists(), 15, agent.log_tail)
    assert _identity(agent) == before


@pytest.mark.parametrize("fault", [_read_only, _full])
def test_agent_with_broken_root_directory_keeps_pods_and_restarts(agent: AgentProcess, fault: Fault) -> None:
    before = _identity(agent)
    (agent.root / "pods" / "0000-gone").mkdir()
    with fault(agent.root):
        agent.stop()
        _came_up_and_swept(agent)
        assert _identity(agent) == before
    agent.write("two.json", pod("two"))
    agent.wait_running("two")
    assert _identity(agent) == before


def test_agent_with_unreadable_directories_keeps_pods_and_restarts(agent: AgentProcess) -> None:
    """Damage to single pods (their logs, a file in place of their directory), then to all pods."""
    before = _identity(agent)
    stray = agent.root / "pods" / "0000-file"
    stray.touch()
    with _dead_file_system(agent.pod_logs / "default_dead_0000"), _dead_file_system(agent.root / "pods" / "0000-dead"):
        agent.stop()
        _came_up_and_swept(agent)
        agent.write("two.json", pod("two"))
        agent.wait_running("two")
        assert _identity(agent) == before
    stray.unlink()


@pytest.mark.parametrize("place", ["root", "pod_logs"])
def test_agent_with_dead_file_system_keeps_pods_and_restarts(agent: AgentProcess, place: str) -> None:
    before = _identity(agent)
    directory = agent.root / "pods" if place == "root" else agent.pod_logs
    with _dead_file_system(directory):
        agent.stop()
        _came_up_and_swept(agent)
        assert _identity(agent) == before
    agent.write("two.json", pod("two"))
    agent.wait_running("two")
    assert _identity(agent) == before
