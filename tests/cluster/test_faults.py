"""Outages of the API server and of the agent, with pods replaced meanwhile."""

import signal
from pathlib import Path

import pytest

from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import container_status, is_ready, wait_for
from pykubelet.testing.envtest import EnvTest
from tests.cgroup_view import cgroup_of, directory_of
from tests.cluster.cluster_node import NODE, Cluster
from tests.manifests import Json, container, exec_handler, mount, pod, serving, sh, stubborn

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_PROBE: Json = {"exec": {"command": ["test", "-e", "/tmp/ok"]}, "periodSeconds": 1}


def _condition(found: Pod, kind: str) -> tuple[str, object]:
    return next((c.status, c.last_transition_time) for c in found.status.conditions if c.type == kind)


def test_a_restart_of_the_agent_changes_nothing(cluster: Cluster) -> None:
    cluster.run(pod("steady", container(command=serving("touch /tmp/ok"), readinessProbe=_PROBE)))
    before = cluster.ready("steady")
    node = cluster.api.node_condition(NODE)
    assert node["status"] == "True"
    cluster.agent.kill()
    cluster.agent.start()
    cluster.run(pod("later"))
    cluster.ready("later")
    after = cluster.api.find_pod("steady")
    assert after is not None
    assert _condition(after, "Ready") == _condition(before, "Ready")
    assert _condition(after, "ContainersReady") == _condition(before, "ContainersReady")
    now = cluster.api.node_condition(NODE)
    assert (now["status"], now["lastTransitionTime"]) == ("True", node["lastTransitionTime"])
    old, new = container_status(before), container_status(after)
    assert (new.container_id, new.restart_count, new.ready, new.started) == (old.container_id, 0, True, True)
    cluster.delete("steady")
    cluster.delete("later")


def test_a_pod_replaced_by_one_of_its_name_while_the_agent_was_down(cluster: Cluster) -> None:
    first = cluster.run(pod("again"))
    cluster.ready("again")
    cluster.agent.stop()
    cluster.api.delete_pod("again", 0)
    second = cluster.run(pod("again", container(command=serving("touch /new"))))
    cluster.agent.start()
    found = cluster.until("again", is_ready)
    assert found.metadata.uid == second["metadata"]["uid"] != first["metadata"]["uid"]
    assert container_status(found).restart_count == 0
    assert cluster.agent.exec("again", "ls /new").strip() == "/new"
    cluster.delete("again")


def test_a_pod_deleted_while_the_agent_was_down_is_only_stopped(cluster: Cluster) -> None:
    cluster.run(pod("doomed"))
    cluster.ready("doomed")
    cluster.agent.kill()
    cluster.api.delete_pod("doomed", 2)
    cluster.agent.start()
    cluster.api.wait_gone("doomed", 20.0, cluster.agent.log_tail)


def test_pod_that_is_gone_from_the_api_server_ends_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """No controller waits for it any more, but its volumes, ports and addresses are held until it has ended."""
    hook = {"preStop": exec_handler("touch /v/hook; sleep 600")}
    volumes = [{"name": "v", "hostPath": {"path": str(tmp_path)}}]
    main = container(command=stubborn(), lifecycle=hook, volumeMounts=[mount("v", "/v")])
    made = cluster.run(pod("forgotten", main, volumes=volumes, terminationGracePeriodSeconds=600))
    cluster.ready("forgotten")
    cgroup = cgroup_of(cluster.agent, "forgotten")
    processes = directory_of(cgroup.layout, "memory") / cgroup.path("memory").lstrip("/") / "cgroup.procs"
    assert processes.read_text()
    cluster.agent.kill()
    cluster.api.delete_pod("forgotten", 0)
    cluster.api.wait_gone("forgotten")
    cluster.agent.start()
    wait_for(lambda: not processes.exists(), 30.0, cluster.agent.log_tail)
    directory = cluster.agent.root / "pods" / made["metadata"]["uid"]
    wait_for(lambda: not directory.exists(), 30.0, cluster.agent.log_tail)
    assert not list(tmp_path.iterdir()), "its hook was run"


def test_statuses_are_sent_after_api_server_outage(cluster: Cluster, apiserver: EnvTest) -> None:
    cluster.run(pod("alive", container(command=serving("touch /tmp/ok"), readinessProbe=_PROBE)))
    ending = cluster.run(pod("ending", container(command=serving()), restartPolicy="Never"))
    cluster.ready("alive")
    cluster.ready("ending")
    apiserver.stop_apiserver()
    try:
        cluster.agent.write("local.json", pod("local"))
        cluster.agent.wait_running("local")
        cluster.agent.end_container("ending")
        cluster.agent.wait_pod("ending", lambda p: p.status.phase in ("Succeeded", "Failed"))
        cluster.agent.exec("alive", "rm /tmp/ok")
        cluster.agent.wait_pod("alive", lambda p: not is_ready(p))
        # Only the API server knows whose token this is: 401 lets clients try again, 500 looks like a broken node.
        assert cluster.ask("/metrics", "a-token-never-reviewed-before")[0] == 401
    finally:
        apiserver.start_apiserver(wait=True)
    found = cluster.until("ending", lambda p: p.status.phase in ("Succeeded", "Failed"))
    assert found.metadata.uid == ending["metadata"]["uid"]
    cluster.until("alive", lambda p: not is_ready(p))
    # The events are sent too: the probe failed while the API server was unavailable.
    reported = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=alive,reason=Unhealthy"
    wait_for(lambda: bool(cluster.api.get(reported)["items"]), 60.0, cluster.agent.log_tail)
    cluster.ready(f"local-{NODE}", 60.0)
    assert container_status(cluster.agent.pod("alive")).restart_count == 0
    (cluster.agent.manifests / "local.json").unlink()
    for name in ("alive", "ending"):
        cluster.delete(name)
    wait_for(lambda: cluster.api.node_condition(NODE).get("status") == "True", 30.0, cluster.agent.log_tail)


def test_an_agent_that_starts_without_an_api_server_runs_its_manifests(cluster: Cluster, apiserver: EnvTest) -> None:
    cluster.run(pod("stays"))
    before = cluster.ready("stays")
    cluster.agent.kill()
    apiserver.stop_apiserver()
    try:
        cluster.agent.write("alone.json", pod("alone"))
        cluster.agent.start()
        cluster.agent.wait_running("alone")
    finally:
        apiserver.start_apiserver(wait=True)
    cluster.ready(f"alone-{NODE}", 60.0)
    after = cluster.ready("stays", 60.0)
    assert container_status(after).container_id == container_status(before).container_id
    assert container_status(after).restart_count == 0
    (cluster.agent.manifests / "alone.json").unlink()
    cluster.delete("stays")


def test_finished_pod_keeps_its_phase_after_crash(cluster: Cluster) -> None:
    cluster.run(pod("ended", container(command=sh("exit 3")), restartPolicy="Never"))
    before = cluster.until("ended", lambda p: p.status.phase == "Failed")
    cluster.agent.stop(signal.SIGKILL)
    cluster.agent.start()
    cluster.run(pod("probe"))
    cluster.ready("probe")
    after = cluster.api.find_pod("ended")
    assert after is not None and after.status.phase == "Failed"
    ends = [container_status(each).state for each in (before, after)]
    assert ends[0] == ends[1] and ends[0] is not None and ends[0].terminated is not None
    assert ends[0].terminated.exit_code == 3
    cluster.delete("ended")
    cluster.delete("probe")


def test_status_overwritten_by_another_client_is_corrected(cluster: Cluster) -> None:
    cluster.run(pod("mine"))
    cluster.ready("mine")
    path = "/api/v1/namespaces/default/pods/mine/status"
    cluster.api.strategic(path, {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    cluster.ready("mine", 15.0)
    # Conditions of other owners are kept.
    cluster.api.strategic(path, {"status": {"conditions": [{"type": "example.com/Gate", "status": "True"}]}})
    cluster.agent.exec("mine", "true")
    found = cluster.api.find_pod("mine")
    assert found is not None and any(c.type == "example.com/Gate" for c in found.status.conditions)
    cluster.delete("mine")


def test_readiness_gates_of_others_are_honoured(cluster: Cluster) -> None:
    gates = [{"conditionType": "example.com/Gate"}]
    cluster.run(pod("gated", readinessGates=gates))
    found = cluster.until("gated", lambda p: p.status.phase == "Running")
    assert not is_ready(found)
    path = "/api/v1/namespaces/default/pods/gated/status"
    cluster.api.strategic(path, {"status": {"conditions": [{"type": "example.com/Gate", "status": "True"}]}})
    cluster.ready("gated", 10.0)
    cluster.delete("gated")
