"""Recognizes what is not for a node: files of other tools, and kinds that need a cluster; says what to write instead.

Pure. ``parse`` asks it about objects that are not Pods, ConfigMaps or Secrets.
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.kubelet.desired.manifest.manifest_types import Finding
from pykubelet.kubelet.desired.manifest.tree import ListNode, MapNode, Node, shown

_POD: Final = "write a Pod (apiVersion: v1, kind: Pod) with a name and the spec of its"
_REPLICATED: Final = f"{_POD} spec.template; for several replicas, Pods with different names"
_NO_SERVICE: Final = "a node has no Services: give the container a hostPort, or use pykubelet port-forward"
_NO_CLAIM: Final = "take it away, and mount a hostPath or an emptyDir volume instead of the claim"
_NO_API: Final = "take it away: pods of manifests do not use an API server"
_ADVICE: Final[Mapping[str, str]] = {
    "Deployment": _REPLICATED,
    "ReplicaSet": _REPLICATED,
    "ReplicationController": _REPLICATED,
    "StatefulSet": f"{_REPLICATED}, and hostPath volumes instead of volumeClaimTemplates",
    "DaemonSet": f"{_POD} spec.template",
    "Job": f"{_POD} spec.template, and restartPolicy: OnFailure or Never",
    "CronJob": f"{_POD} spec.jobTemplate.spec.template, and restartPolicy: Never; start it with a timer of the system",
    "PodTemplate": f"{_POD} template",
    "Service": _NO_SERVICE,
    "Endpoints": _NO_SERVICE,
    "EndpointSlice": _NO_SERVICE,
    "Ingress": "run a reverse proxy as a Pod with hostPort 80 and 443",
    "Gateway": "run a reverse proxy as a Pod with hostPort 80 and 443",
    "HTTPRoute": "run a reverse proxy as a Pod with hostPort 80 and 443",
    "PersistentVolume": _NO_CLAIM,
    "PersistentVolumeClaim": _NO_CLAIM,
    "StorageClass": _NO_CLAIM,
    "Namespace": "take it away: metadata.namespace needs no object on a node",
    "ServiceAccount": _NO_API,
    "Role": _NO_API,
    "RoleBinding": _NO_API,
    "ClusterRole": _NO_API,
    "ClusterRoleBinding": _NO_API,
    "CustomResourceDefinition": _NO_API,
    "HorizontalPodAutoscaler": _NO_API,
    "PodDisruptionBudget": _NO_API,
    "NetworkPolicy": "take it away: a node does not enforce it; filter with nftables",
    "RuntimeClass": "take it away: spec.runtimeClassName of a Pod names the runtime's handler itself",
    "Kustomization": "print its objects with: kubectl kustomize DIRECTORY",
    "KubeletConfiguration": "give it to pykubelet run with --config, and keep it out of the manifest directory",
}
_COMPOSE: Final = (
    "convert it with: kompose convert -f FILE; services with restart: on-failure become Pods, and others Deployments, "
    "whose spec.template is the Pod to write"
)


def foreign_file(root: Node) -> Finding | None:
    """Return what a file of another tool is, and how to convert it; None if it is not recognized."""
    if not isinstance(root, MapNode) or "kind" in root.entries:
        return None
    entries = root.entries
    if "services" in entries and isinstance(entries["services"][1], MapNode):
        return Finding("services", "this is a Compose file, which holds no Kubernetes objects", _COMPOSE)
    if "resources" in entries and isinstance(entries["resources"][1], ListNode) and "metadata" not in entries:
        return Finding("resources", "this is a kustomization, which only names files", _ADVICE["Kustomization"])
    return None


def foreign_kind(kind: str, known: Mapping[str, object]) -> Finding:
    """Return why a kind is not for a node, and what to write instead; ``known`` are the kinds that are."""
    close = next((each for each in known if each.lower() == kind.lower()), None)
    remedy = f"did you mean {close}?" if close else _ADVICE.get(kind, "a node runs Pods, with ConfigMaps and Secrets")
    return Finding("kind", f"{shown(kind)} is not for a node", remedy)
