"""The node as admission checks pods against it."""

from collections.abc import Mapping
from pathlib import Path

from pykubelet.kubelet.actuate.host import NodeFacts, NodeOptions
from pykubelet.kubelet.compose.node.admission_node import AdmissionNode
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.linux import system
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Node, NodeStatus, Pod, Taint
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.pb import runtime_v1_pb2 as pb

TAINT = Taint(key="own", effect="NoSchedule")
CONFIG = KubeletConfiguration(max_pods=9, register_with_taints=(TAINT,))


def admission_node(
    registered: Node | None = None, *, labels: Mapping[str, str] | None = None, shutting_down: bool = False
) -> tuple[AdmissionNode, NodeFacts]:
    cluster = ClusterSettings(Path("/none"), node_labels=dict(labels)) if labels is not None else None
    facts = NodeFacts(NodeOptions(name="one", ips=(), allocatable={"cpu": "2"}, resolv_conf=""))
    settings = Settings("one", CONFIG, "unix:///none", cluster=cluster)
    node = AdmissionNode(
        settings=lambda: settings,
        facts=facts,
        registered=lambda: registered,
        conditions=lambda: {"DiskPressure", "PIDPressure"},
        shutting_down=lambda: shutting_down,
    )
    return node, facts


def test_node_without_a_cluster_is_that_of_its_configuration() -> None:
    node, _ = admission_node(shutting_down=True)
    found = node.node()
    assert found.labels == {
        "kubernetes.io/hostname": "one",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": system.architecture(),
    }
    assert (found.taints, found.allocatable, found.max_pods) == ((TAINT,), amounts({"cpu": "2"}), 9)
    assert (found.conditions, found.shutting_down) == (("PIDPressure", "DiskPressure"), True)


def test_labels_of_the_command_line_count_until_the_node_object_is_known() -> None:
    node, _ = admission_node(labels={"zone": "a"})
    assert node.node().labels["zone"] == "a"
    there = Node(metadata=ObjectMeta(labels={"zone": "b"}), status=NodeStatus(allocatable={"cpu": "1"}))
    node, _ = admission_node(there, labels={"zone": "a"})
    assert node.node().labels == {"zone": "b", "kubernetes.io/os": "linux"}
    assert node.node().allocatable == amounts({"cpu": "1"})


def test_strict_groups_are_unknown_until_the_runtime_has_replied() -> None:
    node, facts = admission_node()
    assert node.node().strict_groups is None
    facts.runtime.learn(pb.VersionResponse(runtime_name="containerd"), pb.StatusResponse())
    assert node.node().strict_groups is False


def test_pod_with_a_forbidden_sysctl_is_refused() -> None:
    spec = {"containers": [], "securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}
    node, _ = admission_node()
    assert node.sysctl_refusal(Pod()) is None
    assert "kernel.msgmax" in (node.sysctl_refusal(from_builtins({"spec": spec}, Pod)) or "")
