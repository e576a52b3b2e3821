"""What the real API server is too old to carry, and what it does not do wrong on demand: against the fake one."""

from collections.abc import Iterator

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, container_status, is_ready, wait_for
from pykubelet.testing.fake_api import Fault
from pykubelet.testing.fake_api.thread import FakeApiThread, fake_api_thread
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.kubeapi import KubeApi
from pykubelet.testing.runtime import PrivateRuntime
from tests.cluster.conftest import NODE, Cluster
from tests.manifests import container, pod, serving, sh

pytestmark = [pytest.mark.root, pytest.mark.runtime]


@pytest.fixture(scope="module")
def fake() -> Iterator[FakeApiThread]:
    with fake_api_thread() as made:
        yield made


@pytest.fixture(scope="module")
def newer(isolation: Isolation, daemon: PrivateRuntime, fake: FakeApiThread) -> Iterator[Cluster]:
    """An agent that is a node of the fake API server."""
    home = isolation.home / "newer"
    home.mkdir()
    flags = ["--kubeconfig", str(fake.kubeconfig(home / "kubelet.conf")), "--node-ip", "127.0.0.1"]
    agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, NODE, flags=flags)
    agent.start()
    api = KubeApi(fake.url, "", "")
    try:
        wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)
        yield Cluster(api, agent)
        assert agent.stop() == 0, agent.log_tail()
    finally:
        agent.destroy()


def test_a_sidecar_and_the_newer_fields_of_the_status(newer: Cluster) -> None:
    sidecar = container("proxy", restartPolicy="Always")
    newer.run(pod("newer", initContainers=[sidecar, container("setup", sh("exit 0"))]))
    found = newer.ready("newer")
    statuses = {each.name: each for each in found.status.init_container_statuses}
    assert statuses["proxy"].started and statuses["proxy"].ready
    assert [each.ip for each in found.status.host_ips] == ["127.0.0.1"]
    assert {c.type for c in found.status.conditions} >= {"PodReadyToStartContainers", "Ready"}
    newer.delete("newer")
    node = newer.api.node(NODE)
    assert node is not None and node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


def test_an_ephemeral_container_joins_a_running_pod(newer: Cluster) -> None:
    newer.run(pod("debugged", container(command=serving("echo main >/tmp/here"))))
    before = newer.ready("debugged")
    look = container("look", sh("cat /proc/1/root/tmp/here; sleep 1"), targetContainerName="main")
    newer.api.strategic(
        "/api/v1/namespaces/default/pods/debugged/ephemeralcontainers", {"spec": {"ephemeralContainers": [look]}}
    )
    found = newer.until("debugged", _ephemeral_ended)
    (status,) = found.status.ephemeral_container_statuses
    assert status.state is not None and status.state.terminated is not None
    assert (status.name, status.state.terminated.exit_code) == ("look", 0)
    assert newer.agent.cli("logs", "debugged", "look").stdout == "main\n"
    assert is_ready(found)
    assert container_status(found).container_id == container_status(before).container_id
    assert container_status(found).restart_count == 0
    newer.delete("debugged")


def _ephemeral_ended(pod: Pod) -> bool:
    return any(each.state and each.state.terminated for each in pod.status.ephemeral_container_statuses)


def test_a_pod_starts_and_ends_whatever_the_api_server_does(newer: Cluster, fake: FakeApiThread) -> None:
    fake.fail(
        Fault("PATCH .*/pods/.*status", status=500, times=2),
        Fault("PATCH .*/pods/.*status", status=429, retry_after=1, times=2),
        Fault("PATCH .*/pods/.*status", drop=True, times=2),
        Fault("events", status=500, times=20),
        Fault("leases", status=429, retry_after=1, times=3),
        Fault("pods.*watch=true", truncate=True, times=3),
    )
    newer.run(pod("hardy"))
    newer.ready("hardy", 60.0)
    newer.api.delete_pod("hardy", 2)
    fake.fail(Fault("DELETE", status=503, times=2))
    newer.api.wait_gone("hardy", 60.0, newer.agent.log_tail)
    assert newer.api.node_condition(NODE)["status"] == "True"


def test_one_object_that_cannot_be_decoded_harms_no_other(newer: Cluster, fake: FakeApiThread) -> None:
    newer.run(pod("lives"))
    newer.ready("lives")
    fake.fail(Fault("GET /api/v1/pods.*watch=true", truncate=True), Fault("GET /api/v1/pods.*watch=true", corrupt=True))
    newer.run(pod("odd"))
    newer.run(pod("next"))
    newer.until("next", is_ready, 60.0)
    assert is_ready(newer.ready("lives"))
    fake.fail()
    for name in ("lives", "odd", "next"):
        newer.api.delete_pod(name, 1)
        newer.api.wait_gone(name, 60.0, newer.agent.log_tail)
