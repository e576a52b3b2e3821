"""A node and pods that admission decides about."""

from collections.abc import Mapping
from typing import Any

from pykubelet.kubelet.desired.admission.admission_types import NodeProperties
from pykubelet.kubelet.types.resources.pod_requests import amounts
from pykubelet.kubelet.types.updates import ANNOTATION_SOURCE
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod

LABELS = {"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "disk": "ssd", "cores": "4"}
NODE = NodeProperties(
    name="n1",
    labels=LABELS,
    allocatable=amounts({"cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi", "example.com/gpu": "1"}),
    max_pods=3,
    strict_groups=True,
)


def make_pod(
    uid: str = "u", requests: Mapping[str, str] | None = None, meta: Mapping[str, Any] | None = None, **spec: Any
) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"requests": dict(requests or {})}}
    container |= spec.pop("container", {})
    document = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid, **(meta or {})},
        "spec": {"containers": [container], **spec},
    }
    return from_builtins(document, Pod)


def static(uid: str = "u", requests: Mapping[str, str] | None = None, **spec: Any) -> Pod:
    return make_pod(uid, requests, {"annotations": {ANNOTATION_SOURCE: "file"}}, **spec)
