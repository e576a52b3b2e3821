"""Properties of the node that count for admission: those of its object, or those of the configuration. Pure.

As in the Go kubelet, the object of the API server wins: others may have changed it, and the scheduler has seen it.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from pykubelet.kubelet.desired.admission.admission_types import NodeProperties
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.models.core_v1 import Node

OS = "linux"
OS_LABEL = "kubernetes.io/os"


def own_labels(name: str, architecture: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of a node that no API server knows; ``given`` are those of ``--node-labels``, which win."""
    return {"kubernetes.io/hostname": name, OS_LABEL: OS, "kubernetes.io/arch": architecture, **given}


def in_cluster(own: NodeProperties, registered: Node | None) -> NodeProperties:
    """Return the properties that pods are checked against: ``own`` ones, or those of the Node object if there is one.

    The label of the operating system holds even before the object has been corrected. An object whose status has no
    allocatable resources is new: its status is not reported yet, and the agent's own amounts count.
    """
    if registered is None:
        return own
    allocatable = registered.status.allocatable
    return replace(
        own,
        labels={**registered.metadata.labels, OS_LABEL: OS},
        taints=registered.spec.taints,
        allocatable=amounts(allocatable) if allocatable else own.allocatable,
    )


def in_order(conditions: Iterable[str]) -> tuple[str, ...]:
    """Return pressure conditions in the order in which a rejection names them."""
    return tuple(sorted(conditions, reverse=True))
