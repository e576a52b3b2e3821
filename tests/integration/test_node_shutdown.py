"""Graceful node shutdowns on a real runtime and a real message bus, with a stand-in for logind."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Node, Pod
from pykubelet.testing.agent import AgentProcess, is_ready, wait_for
from pykubelet.testing.fake_logind import FakeLogind, fake_logind, missing
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.runtime import PrivateRuntime
from tests.integration.api_server import api_server
from tests.manifests import Json, container, mount, pod, serving

pytestmark = [
    pytest.mark.root,
    pytest.mark.runtime,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

MESSAGE = "Pod was terminated in response to imminent node shutdown."
BY_PRIORITY = [
    {"priority": 0, "shutdownGracePeriodSeconds": 60},
    {"priority": 100, "shutdownGracePeriodSeconds": 60},
]


_NOTE = "touch /dev/shm/heeds"
_HEEDS: Json = {"exec": {"command": ["test", "-e", "/dev/shm/heeds"]}, "periodSeconds": 1, "timeoutSeconds": 10}
"""Ready once the program heeds SIGTERM, which the kernel keeps from a first process that does not."""


@pytest.fixture
def logind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLogind]:
    with fake_logind(tmp_path / "bus", max_delay_usec=120_000_000) as made:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={made.bus.path}")
        yield made


@pytest.fixture
def home(isolation: Isolation) -> Path:
    return isolation.home / "node-shutdown"


def recording(name: str, directory: Path, priority: int, seconds: int = 0) -> Json:
    """A pod that appends its name to a file when it is stopped, after some seconds."""
    trap = f"trap 'sleep {seconds}; echo {name} >> /ends/log; exit 0' TERM; {_NOTE}"
    command = ["sh", "-c", f"{trap}; while :; do sleep 3600 & wait $!; done"]
    main = container(command=command, readinessProbe=_HEEDS, volumeMounts=[mount("ends", "/ends")])
    volume = {"name": "ends", "hostPath": {"path": str(directory)}}
    return pod(name, main, volumes=[volume], priority=priority, terminationGracePeriodSeconds=30)


def node_ready(agent: AgentProcess) -> tuple[str, str, str]:
    node = from_builtins(agent.api.get(f"/api/v1/nodes/{agent.node_name}"), Node)
    (found,) = [each for each in node.status.conditions if each.type == "Ready"]
    return found.status, found.reason, found.message


def ended_by_shutdown(found: Pod) -> bool:
    return found.status.phase == "Failed" and found.status.reason == "Terminated"


def shutdown_times(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    shown = [line.split() for line in lines if line.startswith("kubelet_graceful_shutdown_")]
    return {name.removeprefix("kubelet_graceful_shutdown_"): float(value) for name, value in shown}


def test_machine_waits_until_the_pods_have_ended_in_the_order_of_their_priority(
    logind: FakeLogind, home: Path, isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    port = free_port()
    config = {"shutdownGracePeriodByPodPriority": BY_PRIORITY, "healthzPort": port}
    agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, config=config)
    try:
        agent.start()
        agent.write("late.json", recording("late", tmp_path, priority=100))
        agent.write("early.json", recording("early", tmp_path, priority=7, seconds=1))
        agent.wait_running("late", "early")
        wait_for(lambda: len(logind.held) == 1, 20, agent.log_tail)
        assert logind.held[0].arguments == (
            "shutdown",
            "kubelet",
            "Kubelet needs time to handle node shutdown",
            "delay",
        )
        assert node_ready(agent)[0] == "True"

        logind.announce(True)
        wait_for(lambda: node_ready(agent)[0] == "False", 20, agent.log_tail)
        assert node_ready(agent)[1:] == ("KubeletNotReady", "node is shutting down")
        agent.write("new.json", pod("new"))
        rejected = agent.wait_pod("new", lambda found: found.status.phase == "Failed")
        assert rejected.status.reason == "NodeShutdown"
        assert rejected.status.message == "Pod was rejected: Pod was rejected as the node is shutting down."
        wait_for(lambda: not logind.held, 60, agent.log_tail)

        assert (tmp_path / "log").read_text().split() == ["early", "late"]
        for name in ("early", "late"):
            status = agent.wait_pod(name, ended_by_shutdown).status
            assert status.message == MESSAGE
            (disruption,) = [each for each in status.conditions if each.type == "DisruptionTarget"]
            assert (disruption.status, disruption.reason) == ("True", "TerminationByKubelet")
        times = shutdown_times(port)
        assert 0 < times["start_time_seconds"] <= times["end_time_seconds"]
        assert set(json.loads((agent.root / "graceful_node_shutdown_state").read_text())) == {"startTime", "endTime"}
        assert agent.stop() == 0

        # The machine is up again.
        logind.preparing = False
        agent.start()
        agent.wait_running("early", "late", "new", timeout=40)
        assert shutdown_times(port) == times
        assert len(logind.held) == 1
        agent.remove_all_pods()
        assert agent.stop() == 0
        assert not logind.held
    finally:
        agent.destroy()


def test_pods_of_a_cluster_fail_and_restarts_of_bus_and_logind_are_survived(
    logind: FakeLogind, home: Path, isolation: Isolation, daemon: PrivateRuntime, tmp_path: Path
) -> None:
    with api_server() as api:
        flags = ("--kubeconfig", str(api.kubeconfig(tmp_path / "kubeconfig")))
        config = {
            "enableServer": False,
            "shutdownGracePeriod": "60s",
            "shutdownGracePeriodCriticalPods": "20s",
        }
        agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, config=config, flags=flags)
        try:
            agent.start()
            wait_for(lambda: len(logind.held) == 1, 20, agent.log_tail)
            logind.stop()
            logind.start()
            wait_for(lambda: len(logind.locks) == 2 and len(logind.held) == 1, 30, agent.log_tail)
            logind.stop()
            logind.bus.stop()
            logind.bus.start()
            logind.start()
            wait_for(lambda: len(logind.locks) == 3 and len(logind.held) == 1, 60, agent.log_tail)

            api.put_pod(pod("web", container(command=serving(_NOTE, status=143), readinessProbe=_HEEDS)))
            api.put_pod(pod("clean", container(command=serving(_NOTE), readinessProbe=_HEEDS)))
            for name in ("web", "clean"):
                agent.wait_pod(name, is_ready)
            logind.announce(True)
            wait_for(lambda: not logind.held, 60, agent.log_tail)
            wait_for(lambda: api.pod("web")["status"].get("phase") == "Failed", 30, agent.log_tail)
            status = api.pod("web")["status"]
            assert (status["reason"], status["message"]) == ("Terminated", MESSAGE)
            assert "DisruptionTarget" in [each["type"] for each in status["conditions"]]
            wait_for(lambda: api.pod("clean")["status"].get("phase") == "Succeeded", 30, agent.log_tail)
            wait_for(lambda: api.conditions()["Ready"] == "False", 20, agent.log_tail)

            logind.announce(False)
            wait_for(lambda: api.conditions()["Ready"] == "True" and len(logind.held) == 1, 30, agent.log_tail)
            api.put_pod(pod("after"))
            wait_for(lambda: api.pod("after")["status"].get("phase") == "Running", 45, agent.log_tail)
            for name in ("web", "clean", "after"):
                api.remove_pod(name)
            agent.wait_gone("web", "clean", "after")
            assert agent.stop() == 0
        finally:
            agent.destroy()
