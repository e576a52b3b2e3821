"""Fields of the configuration that concern the node itself, with a real agent and the kernel."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.linux.cgroups import CgroupResources, detect, open_driver
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from tests.cgroup_view import cgroup_of
from tests.manifests import Json, container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]
_MIB = 1 << 20


@pytest.fixture
def daemons(isolation: Isolation) -> Iterator[str]:
    """A cgroup of daemons."""
    path, driver = f"{isolation.cgroup_root}-daemons", open_driver(detect())
    driver.create(path, CgroupResources())
    yield path
    driver.delete(path)


def made(isolation: Isolation, daemon: PrivateRuntime, fields: Json) -> AgentProcess:
    return AgentProcess(isolation.home / "node", daemon.endpoint, isolation.cgroup_root, config=fields)


def test_reservations_and_the_quota_period_are_in_the_kernel(
    isolation: Isolation, daemon: PrivateRuntime, daemons: str
) -> None:
    fields: Json = {
        "kubeReserved": {"cpu": "100m", "memory": "64Mi"},
        "kubeReservedCgroup": daemons,
        "systemReserved": {"memory": "64Mi", "pid": "500"},
        "enforceNodeAllocatable": ["pods", "kube-reserved"],
        "featureGates": {
            "CustomCPUCFSQuotaPeriod": True,
            "QOSReserved": True,
            "MemoryQoS": True,
            "KubeletSeparateDiskGC": False,
        },
        "cpuCFSQuotaPeriod": "20ms",
    }
    agent = made(isolation, daemon, fields)
    try:
        agent.start()
        limits = open_driver(detect()).limits(daemons)
        assert limits.memory_max == 64 * _MIB
        total = int(re.findall(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[0]) * 1024
        whole = open_driver(detect()).limits(f"{isolation.cgroup_root}/kubepods")
        assert whole.memory_max is not None and 0 <= total - 128 * _MIB - whole.memory_max < 4096
        log = agent.log_tail(1 << 20)
        assert "QOSReserved=true: the feature is not implemented" in log
        assert log.count("memory QoS not applied: cgroup v2 is required") == (detect().version == 1)
        assert "KubeletSeparateDiskGC=false: the feature cannot be switched off" in log
        agent.write("period", pod("period", container(resources={"limits": {"cpu": "500m", "memory": "32Mi"}})))
        agent.wait_running("period")
        assert cgroup_of(agent, "period").cpu_quota == 10_000, "half of 20 ms"
        agent.remove_all_pods()
        assert agent.stop() == 0
    finally:
        agent.destroy()


def test_agent_does_not_start_without_the_cgroup_of_the_daemons(isolation: Isolation, daemon: PrivateRuntime) -> None:
    fields: Json = {
        "kubeReserved": {"cpu": "100m"},
        "kubeReservedCgroup": f"{isolation.cgroup_root}-none",
        "enforceNodeAllocatable": ["kube-reserved"],
    }
    agent = made(isolation, daemon, fields)
    try:
        agent.start(wait=False)
        assert agent.process is not None
        assert agent.process.wait(timeout=60 * PATIENCE) != 0
        assert "cgroup does not exist" in agent.log_tail()
    finally:
        agent.destroy()
