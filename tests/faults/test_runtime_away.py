"""The container runtime goes away and comes back: pods run on, nothing is restarted, the agent recovers by itself."""

import os
import signal
import time

import pytest

from pykubelet.testing.agent import AgentProcess, is_ready, wait_for
from pykubelet.testing.containerd import PrivateContainerd
from tests.manifests import container, exec_handler, pod, serving

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(180)]


def node_events(agent: AgentProcess) -> list[str]:
    items = agent.api.get("/api/v1/events")["items"]
    return [f"{item['reason']}: {item['message']}" for item in items if item["involvedObject"]["kind"] == "Node"]


def test_a_runtime_that_is_killed_and_started_again(agent: AgentProcess, containerd: PrivateContainerd) -> None:
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 2}
    agent.write("stays.json", pod("stays", container(livenessProbe=probe)))
    before = agent.wait_pod("stays", is_ready)
    containerd.signal(signal.SIGKILL)
    agent.write("comes.json", pod("comes"))
    wait_for(
        lambda: any(line.startswith("ContainerRuntimeNotReady") for line in node_events(agent)),
        8.0,
        lambda: f"no event of the runtime: {node_events(agent)}",
    )
    assert not is_ready(agent.pod("comes"))
    faults = agent.api.get("/pykubelet/v1/problems")["items"]
    assert [fault["subject"] for fault in faults] == ["container runtime"]
    containerd.start()
    came_back = time.monotonic()
    agent.wait_pod("comes", is_ready, timeout=10)
    assert time.monotonic() - came_back < 8
    after = agent.pod("stays").status.container_statuses[0]
    assert (after.restart_count, after.container_id) == (0, before.status.container_statuses[0].container_id)
    assert agent.api.get("/pykubelet/v1/problems")["items"] == []


def test_a_runtime_that_hangs_does_not_stop_the_agent(agent: AgentProcess, containerd: PrivateContainerd) -> None:
    agent.write("stays.json", pod("stays"))
    agent.wait_pod("stays", is_ready)
    pid = containerd.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        agent.write("later.json", pod("later"))
        time.sleep(3)
        assert "later" in agent.pods()
        assert agent.api.get("/pykubelet/v1/version")["runtimeName"] == "containerd"
    finally:
        os.kill(pid, signal.SIGCONT)
    agent.wait_pod("later", is_ready, timeout=20)
    assert agent.pod("stays").status.container_statuses[0].restart_count == 0


def test_a_hook_that_fails_and_a_volume_that_cannot_be_mounted(agent: AgentProcess) -> None:
    hooked = container(command=serving(), lifecycle={"postStart": exec_handler("exit 9")})
    folder = agent.home / "missing"
    volume = {"name": "data", "hostPath": {"path": str(folder), "type": "Directory"}}
    mounting = container(volumeMounts=[{"name": "data", "mountPath": "/data"}])
    agent.write("hooked.json", pod("hooked", hooked))
    agent.write("mounting.json", pod("mounting", mounting, volumes=[volume]))
    agent.wait_event("hooked", "FailedPostStartHook")
    agent.wait_event("mounting", "FailedMount", "is not a directory")
    assert agent.pod("mounting").status.phase == "Pending"
    folder.mkdir()
    agent.write("hooked.json", pod("hooked", container()))
    agent.wait_pod("mounting", is_ready, timeout=30)
    agent.wait_pod("hooked", is_ready, timeout=30)
