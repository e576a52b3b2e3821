"""Properties of the node that count for admission: its own, or those of its object in the API server."""

from pykubelet.kubelet.desired.admission import NodeProperties
from pykubelet.kubelet.desired.admission.plan.node_properties import in_cluster, in_order, own_labels
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.models.core_v1 import Node, NodeSpec, NodeStatus, Taint
from pykubelet.models.meta_v1 import ObjectMeta

OWN = NodeProperties(
    name="one",
    labels={"kubernetes.io/os": "linux", "zone": "a"},
    taints=(Taint(key="own", effect="NoSchedule"),),
    allocatable=amounts({"cpu": "2"}),
    max_pods=7,
)


def registered(labels: dict[str, str], taints: tuple[Taint, ...] = (), **allocatable: str | int | float) -> Node:
    return Node(
        metadata=ObjectMeta(name="one", labels=labels),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(allocatable=allocatable),
    )


def test_node_without_an_object_has_its_own_properties() -> None:
    assert in_cluster(OWN, None) == OWN


def test_labels_and_taints_are_those_of_the_object_even_if_it_has_none() -> None:
    taint = Taint(key="others", effect="NoExecute")
    found = in_cluster(OWN, registered({"zone": "b"}, (taint,), cpu="1"))
    assert found.labels == {"zone": "b", "kubernetes.io/os": "linux"}
    assert found.taints == (taint,)
    assert in_cluster(OWN, registered({})).taints == ()


def test_operating_system_is_linux_whatever_the_object_says() -> None:
    assert in_cluster(OWN, registered({"kubernetes.io/os": "windows"})).labels == {"kubernetes.io/os": "linux"}


def test_resources_are_those_of_the_object_as_soon_as_it_has_any() -> None:
    assert in_cluster(OWN, registered({})).allocatable == OWN.allocatable
    assert in_cluster(OWN, registered({}, cpu="1")).allocatable == amounts({"cpu": "1"})


def test_all_other_properties_are_those_of_the_agent() -> None:
    assert (in_cluster(OWN, registered({})).name, in_cluster(OWN, registered({})).max_pods) == ("one", 7)


def test_labels_of_the_configuration_win_over_those_that_every_node_has() -> None:
    standard = {"kubernetes.io/hostname": "one", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    assert own_labels("one", "amd64", {}) == standard
    given = {"kubernetes.io/hostname": "other", "zone": "a"}
    assert own_labels("one", "amd64", given) == {**standard, **given}


def test_rejection_names_pressure_conditions_in_one_order() -> None:
    assert in_order({"DiskPressure", "PIDPressure", "MemoryPressure"}) == (
        "PIDPressure",
        "MemoryPressure",
        "DiskPressure",
    )
