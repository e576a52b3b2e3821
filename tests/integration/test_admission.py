"""Pods that the node rejects: Failed with the reason, an event, never started, also after a restart."""

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, container_status, is_ready
from tests.manifests import Apply, Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow]


@pytest.fixture(scope="module")
def agent_config() -> dict[str, object]:
    return {"maxPods": 4}


def sized(name: str, memory: str) -> Json:
    return pod(name, container(resources={"requests": {"memory": memory}}))


def rejected(seen: Pod) -> bool:
    return seen.status.phase == "Failed"


def test_rejected_pods_have_the_reasons_of_the_go_kubelet(agent: AgentProcess, apply: Apply) -> None:
    apply("sysctl", pod("sysctl", securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}))
    apply("big", sized("big", "100Ti"))
    apply("selector", pod("selector", nodeSelector={"disk": "ssd"}))
    apply("here", pod("here", nodeSelector={"kubernetes.io/os": "linux", "kubernetes.io/hostname": agent.node_name}))
    expected = {
        "sysctl": ("SysctlForbidden", 'Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted'),
        "big": ("UnexpectedAdmissionError", "no set of running pods found to reclaim resources: [(res: memory, q: "),
        "selector": (
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
    }
    for name, (reason, message) in expected.items():
        seen = agent.wait_pod(name, rejected)
        assert seen.status.reason == reason
        assert message in seen.status.message
        assert agent.wait_event(name, reason).type == "Warning"
        assert not container_status(seen).container_id
    agent.wait_pod("here", is_ready)
    apply("selector", pod("selector"))
    agent.wait_pod("selector", is_ready)
    shown = agent.cli("get", "pods", "big").stdout
    assert "UnexpectedAdmissionError" in shown


def test_admission_decisions_survive_restart(agent: AgentProcess, apply: Apply) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        apply(name, pod(name))
    before = {name: agent.wait_pod(name, is_ready) for name in names}
    # Sorts before the others, so it would be admitted first if running pods did not take precedence.
    apply("0", pod("0"))
    assert agent.wait_pod("0", rejected).status.reason == "UnexpectedAdmissionError"
    agent.kill()
    agent.start()
    assert agent.wait_pod("0", rejected).status.reason == "UnexpectedAdmissionError"
    for name in names:
        seen = agent.wait_pod(name, is_ready)
        assert container_status(seen).container_id == container_status(before[name]).container_id
        assert container_status(seen).restart_count == 0
    assert not (agent.root / "pods" / agent.pod("0").metadata.uid).exists()
    apply("d")
    agent.wait_gone("d")
    agent.wait_pod("0", is_ready)
