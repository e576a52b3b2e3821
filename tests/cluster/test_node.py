"""The Node object: flags, an existing object, cordon, deletion, a dead runtime."""

import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.host.tunables import TUNABLES
from pykubelet.testing.agent import container_status, wait_for
from pykubelet.testing.envtest import EnvTest
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.kubeapi import ApiError, Json, KubeApi
from pykubelet.testing.runtime import PrivateRuntime
from tests.cluster.cluster_node import NODE, Cluster, has_chains
from tests.manifests import container, pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_PATH = f"/api/v1/nodes/{NODE}"
_CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"


@pytest.fixture(scope="module")
def node_flags() -> list[str]:
    labels = "pool=blue,node.kubernetes.io/class=small"
    taints = "dedicated=test:NoExecute"
    return ["--node-labels", labels, "--register-with-taints", taints, "--provider-id", "metal://rack-7"]


@pytest.fixture(scope="module")
def huge_page() -> Iterator[bool]:
    """Whether the machine has a huge page of 2 MiB: one is added, if the kernel finds room for it."""
    count = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    before = int(count.read_text()) if count.exists() else 0
    if count.exists():
        count.write_text(str(before + 1))
    added = count.exists() and int(count.read_text()) > before
    yield added
    if added:
        count.write_text(str(max(0, int(count.read_text()) - 1)))  # other sessions may have added theirs


@pytest.fixture(scope="module")
def resolv_conf(isolation: Isolation) -> Path:
    """A resolv.conf with more search domains than a pod can have."""
    path = isolation.home / "resolv.conf"
    path.write_text(f"search {' '.join(f'd{number}.test' for number in range(33))}\n")
    return path


@pytest.fixture(scope="module")
def node_config(huge_page: bool, resolv_conf: Path) -> Json:
    """The huge page is there before the agent counts."""
    common = {"maxPods": 17, "nodeStatusUpdateFrequency": "1s", "nodeLeaseDurationSeconds": 8}
    return {**common, "resolvConf": str(resolv_conf)}


def _node(cluster: Cluster) -> Json:
    found = cluster.api.node(NODE)
    assert found is not None
    return found


def test_a_node_registers_as_its_flags_say(cluster: Cluster) -> None:
    node = _node(cluster)
    assert node["metadata"]["labels"].items() >= {"pool": "blue", "node.kubernetes.io/class": "small"}.items()
    assert {"key": "dedicated", "value": "test", "effect": "NoExecute"} in node["spec"]["taints"]
    assert node["spec"]["providerID"] == "metal://rack-7" and node["status"]["capacity"]["pods"] == "17"
    # Pods that are bound to it directly have to tolerate its taints.
    cluster.run(pod("driven-off"))
    cluster.run(pod("tolerant", tolerations=[{"key": "dedicated", "operator": "Exists"}]))
    cluster.ready("tolerant")
    found = cluster.until("driven-off", lambda p: p.status.phase == "Failed")
    assert found.status.reason == "TaintToleration"
    for name in ("driven-off", "tolerant"):
        cluster.delete(name, 1)


def test_huge_pages_are_counted_in_the_units_of_their_name(cluster: Cluster, huge_page: bool) -> None:
    """Schedulers and quotas show the quantity as it is written."""
    if not huge_page:
        pytest.skip("the kernel has no huge pages of 2 MiB, or no room for one")
    status = _node(cluster)["status"]
    for amounts in (status["capacity"], status["allocatable"]):
        assert re.fullmatch(r"[1-9]\d*[MG]i", amounts["hugepages-2Mi"]), amounts


def test_search_domains_that_pods_cannot_have_are_an_event_of_the_node(cluster: Cluster, resolv_conf: Path) -> None:
    reported = cluster.wait_event(NODE, "CheckLimitsForResolvConf")
    wanted = f"Resolv.conf file '{resolv_conf}' contains search line consisting of more than 32 domains!"
    assert (reported["type"], reported["message"]) == ("Warning", wanted)


def test_machine_of_a_node_has_the_tunables_and_the_chains_of_the_firewall(cluster: Cluster) -> None:
    set_up = {name: Path("/proc/sys", name.replace(".", "/")) for name in TUNABLES}
    wait_for(lambda: all(has_chains(name) for name in ("iptables", "ip6tables") if shutil.which(name)), 30, str)
    assert {name: int(path.read_text()) for name, path in set_up.items()} == TUNABLES


def test_pod_is_rejected_for_a_device_whose_plugin_is_gone(cluster: Cluster) -> None:
    """After a change of agents the Node object still lists what the device plugins of the other one offered."""
    stale = {"example.com/gpu": "2"}
    cluster.api.merge(f"{_PATH}/status", {"status": {"capacity": stale, "allocatable": stale}})
    cluster.agent.stop()
    cluster.agent.start()
    wait_for(
        lambda: _node(cluster)["status"]["allocatable"].get("example.com/gpu") == "0", 20.0, cluster.agent.log_tail
    )
    tolerant = [{"key": "dedicated", "operator": "Exists"}]
    limits = {"limits": {"example.com/gpu": "1"}}
    cluster.run(pod("computing", container(resources=limits), tolerations=tolerant))
    found = cluster.until("computing", lambda p: p.status.phase == "Failed")
    assert found.status.reason == "OutOfexample.com/gpu"
    assert "requested: 1, used: 0, capacity: 0" in found.status.message
    cluster.delete("computing", 1)


def test_pod_that_is_bound_right_after_its_label_is_admitted(cluster: Cluster) -> None:
    """The watches of pods and of the node are independent, so the pod may arrive before the label."""
    tolerant = [{"key": "dedicated", "operator": "Exists"}]
    for number in range(5):
        label = {f"fresh-{number}": "yes"}
        cluster.api.merge(_PATH, {"metadata": {"labels": label}})
        cluster.run(pod(f"fresh-{number}", nodeSelector=label, tolerations=tolerant))
    for number in range(5):
        cluster.until(f"fresh-{number}", lambda p: p.status.phase != "Pending")
        found = cluster.ready(f"fresh-{number}")
        assert found.status.phase == "Running"
    for number in range(5):
        cluster.delete(f"fresh-{number}", 1)


def test_a_restart_keeps_what_others_set(cluster: Cluster) -> None:
    labels = {"theirs": "yes", "pool": "red", "kubernetes.io/os": "other"}
    cluster.api.merge(_PATH, {"metadata": {"labels": labels}, "spec": {"unschedulable": True, "taints": []}})
    cluster.agent.stop()
    cluster.agent.start()
    wait_for(lambda: _node(cluster)["metadata"]["labels"]["kubernetes.io/os"] == "linux", 20.0, cluster.agent.log_tail)
    node = _node(cluster)
    assert node["metadata"]["labels"].items() >= {"theirs": "yes", "pool": "red"}.items()
    assert node["spec"]["unschedulable"]
    assert "dedicated" not in {taint["key"] for taint in node["spec"].get("taints", ())}
    # A cordoned node keeps running and accepts pods that are bound to it directly.
    cluster.run(pod("bound"))
    cluster.ready("bound")
    cluster.delete("bound")
    cluster.api.merge(_PATH, {"spec": {"unschedulable": None}})


def test_node_that_was_created_ahead_of_time_needs_no_right_to_create_it(cluster: Cluster, apiserver: EnvTest) -> None:
    """The agent restarts as a user that may do all that a node does, but for that."""
    own = apiserver.node_kubeconfig(NODE)
    cluster.agent.stop()
    with _allowed_all_but_to_create_nodes(cluster, "outsider"):
        apiserver.kubeconfig("outsider", own)
        try:
            refused = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "another"}}
            limited = KubeApi(apiserver.url, str(apiserver.home / "ca.crt"), apiserver.tokens["outsider"])
            wait_for(lambda: _sees_the_node(limited), 10.0, str)
            with pytest.raises(ApiError, match="403"):
                limited.create("/api/v1/nodes", refused)
            lost = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
            cluster.api.strategic(f"{_PATH}/status", {"status": lost})
            cluster.api.merge(_PATH, {"metadata": {"labels": {"kubernetes.io/hostname": None}}})
            cluster.agent.start()
            wait_for(lambda: cluster.api.node_condition(NODE).get("status") == "True", 20.0, cluster.agent.log_tail)
            # The creator of a node leaves the labels to its agent.
            wait_for(
                lambda: _node(cluster)["metadata"]["labels"].get("kubernetes.io/hostname") == NODE,
                20.0,
                cluster.agent.log_tail,
            )
        finally:
            if cluster.agent.process is not None:
                cluster.agent.stop()
            apiserver.node_kubeconfig(NODE)
    cluster.agent.start()


def _sees_the_node(api: KubeApi) -> bool:
    with suppress(ApiError):  # the API server learns of the role a moment later
        return api.node(NODE) is not None
    return False


@contextmanager
def _allowed_all_but_to_create_nodes(cluster: Cluster, user: str) -> Iterator[None]:
    group, rbac = "rbac.authorization.k8s.io", "/apis/rbac.authorization.k8s.io/v1"
    kind = {"apiVersion": f"{group}/v1", "metadata": {"name": "precreated"}}
    everything = {"apiGroups": ["*"], "resources": ["*"]}
    creates = {"apiGroups": ["", "coordination.k8s.io", "storage.k8s.io"], "verbs": ["create"]}
    rules = [
        {**everything, "verbs": ["get", "list", "watch", "update", "patch", "delete"]},
        {**creates, "resources": ["events", "leases", "csinodes", "pods"]},
    ]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "precreated"}
    subjects = [{"apiGroup": group, "kind": "User", "name": user}]
    cluster.api.create(f"{rbac}/clusterroles", {**kind, "kind": "ClusterRole", "rules": rules})
    binding = {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": subjects}
    cluster.api.create(f"{rbac}/clusterrolebindings", binding)
    try:
        yield
    finally:
        for directory in ("clusterrolebindings", "clusterroles"):
            cluster.api.delete(f"{rbac}/{directory}/precreated")


def test_node_marked_unknown_becomes_ready_again(cluster: Cluster) -> None:
    status = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    cluster.api.strategic(f"{_PATH}/status", {"status": status})
    wait_for(lambda: cluster.api.node_condition(NODE).get("status") == "True", 10.0, cluster.agent.log_tail)


def test_the_lease_is_renewed(cluster: Cluster) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"
    first = cluster.api.get(path)["spec"]
    assert first["leaseDurationSeconds"] == 8
    wait_for(lambda: cluster.api.get(path)["spec"]["renewTime"] != first["renewTime"], 8.0, cluster.agent.log_tail)


def test_deleted_node_is_registered_again(cluster: Cluster) -> None:
    before = _node(cluster)["metadata"]["uid"]
    cluster.api.delete(f"{_CSI_NODES}/{NODE}")  # with its owner, as the garbage collector does
    cluster.api.delete(_PATH)

    def back() -> bool:
        node = cluster.api.node(NODE)
        return node is not None and node["metadata"]["uid"] != before

    wait_for(back, 20.0, cluster.agent.log_tail)
    wait_for(lambda: cluster.api.node_condition(NODE).get("status") == "True", 20.0, cluster.agent.log_tail)

    def owned() -> bool:
        found = [each for each in cluster.api.get(_CSI_NODES)["items"] if each["metadata"]["name"] == NODE]
        return [each["metadata"]["ownerReferences"][0]["uid"] for each in found] == [_node(cluster)["metadata"]["uid"]]

    wait_for(owned, 20.0, cluster.agent.log_tail)


def test_node_is_not_ready_after_half_a_minute_without_its_runtime(cluster: Cluster, daemon: PrivateRuntime) -> None:
    tolerations = [{"operator": "Exists"}]
    cluster.run(pod("lasting", tolerations=tolerations))
    before = container_status(cluster.ready("lasting"))
    daemon.signal(signal.SIGKILL)
    killed = time.monotonic()
    try:
        wait_for(lambda: cluster.api.node_condition(NODE)["status"] == "False", 60.0, cluster.agent.log_tail)
        # The last answer may be five seconds old. A cluster sends no requests to the pods of a node that is not ready.
        assert time.monotonic() - killed > 20.0
        reported = cluster.api.node_condition(NODE)
        assert reported["reason"] == "KubeletNotReady" and "container runtime is down" in reported["message"]
        # Pods that are bound during the outage wait.
        cluster.run(pod("patient", tolerations=tolerations))
    finally:
        daemon.start()
    wait_for(lambda: cluster.api.node_condition(NODE)["status"] == "True", 20.0, cluster.agent.log_tail)
    cluster.ready("patient")
    after = container_status(cluster.ready("lasting"))
    assert (after.container_id, after.restart_count) == (before.container_id, 0)
    for name in ("lasting", "patient"):
        cluster.delete(name, 1)
