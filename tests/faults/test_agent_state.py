"""Damaged files of the agent: it starts anyway and names the files that it could not read."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, container_status, wait_for
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture
def agent(isolation: Isolation, daemon: PrivateRuntime) -> Iterator[AgentProcess]:
    made = AgentProcess(isolation.home / "state", daemon.endpoint, f"{isolation.cgroup_root}-state")
    made.start()
    try:
        yield made
        if made.process is None:
            made.start()
        made.remove_all_pods()
    finally:
        subprocess.run(["chattr", "-R", "-i", str(made.root)], capture_output=True)
        made.destroy()


def _replace(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return path


def _damage(agent: AgentProcess, there: Pod) -> list[Path]:
    """Damage files in every way; returns the files that the agent has to name."""
    dirs, uid = PodDirs.at(agent.root), PodUID(there.metadata.uid)
    (copy,) = (agent.root / "manifests" / "file").iterdir()
    os.mkfifo(_replace(copy))
    dirs.user_namespace(uid).mkdir()
    _replace(dirs.resources(uid)).write_bytes(b"")
    os.truncate(dirs.resources(uid), 1 << 40)
    ghost = PodUID("ghost")
    dirs.prepare(ghost)
    dirs.resources(ghost).write_bytes(b"\x00garbage")
    looped = PodUID("looped")
    dirs.prepare(looped)
    dirs.user_namespace(looped).symlink_to(dirs.user_namespace(looped).name)
    stuck = PodUID("stuck")
    dirs.prepare(stuck)
    kept = dirs.user_namespace(stuck)
    kept.write_bytes(b"")
    subprocess.run(["chattr", "+i", str(kept)], check=True)
    (agent.root / "pods" / "file").write_bytes(b"no directory")
    registry = agent.root / "plugins_registry"
    registry.mkdir(exist_ok=True)
    os.mkfifo(registry / "fifo.sock")
    (registry / "loop.sock").symlink_to("loop.sock")
    (registry / "dead.sock").write_bytes(b"no socket")
    image = _replace(agent.root / "image_manager" / "pulled" / f"sha256-{'0' * 64}")
    os.mkfifo(image)
    pull = _replace(agent.root / "image_manager" / "pulling" / f"sha256-{'1' * 64}")
    pull.symlink_to(pull.name)
    files = [
        image,
        pull,
        dirs.user_namespace(uid),
        dirs.resources(uid),
        dirs.resources(ghost),
        dirs.user_namespace(looped),
    ]
    return [*files, kept]


def test_agent_with_damaged_files_serves_names_them_and_runs_pods(agent: AgentProcess) -> None:
    agent.write("stays.json", pod("stays"))
    (before,) = agent.wait_running("stays")
    assert agent.stop() == 0
    damaged = _damage(agent, before)
    agent.start(wait=False)
    wait_for(agent._answers, 10, agent.log_tail)
    agent.write("new.json", pod("new"))
    agent.wait_running("new")
    (after,) = agent.wait_running("stays")
    assert container_status(after).container_id == container_status(before).container_id
    report = agent.cli("doctor", "--container-runtime-endpoint", agent.endpoint).stdout
    log = agent.log.read_text(errors="replace")
    for path in damaged:
        assert str(path) in report
        assert f"{path} is damaged" in log
