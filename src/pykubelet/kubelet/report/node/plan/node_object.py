"""The Node object, computed from facts about the machine and from the status reported before. Pure.

Conditions, their reasons and messages are those of the Go kubelet (``pkg/kubelet/nodestatus``), since people and
controllers know them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.node.node_types import DECLARED_FEATURES, Image, NodeConfig, NodeState
from pykubelet.kubelet.types.resources.pod_requests import is_extended
from pykubelet.kubelet.types.storage import VolumesInUse
from pykubelet.models.codec import to_builtins
from pykubelet.models.core_v1 import (
    ContainerImage,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeFeatures,
    NodeSpec,
    NodeStatus,
    Taint,
)
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix

LABEL_HOSTNAME: Final = "kubernetes.io/hostname"
LABEL_OS: Final = "kubernetes.io/os"
LABEL_ARCH: Final = "kubernetes.io/arch"
_BETA_OS: Final = "beta.kubernetes.io/os"
_BETA_ARCH: Final = "beta.kubernetes.io/arch"
_DEFAULT_LABELS: Final = frozenset(
    (
        *(LABEL_HOSTNAME, LABEL_OS, LABEL_ARCH, _BETA_OS, _BETA_ARCH),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    )
)
"""Labels corrected on a node that exists already; all other labels belong to their last writer."""
UNINITIALIZED: Final = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")
ANNOTATION_IP: Final = "alpha.kubernetes.io/provided-node-ip"
ANNOTATION_ATTACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
_MAX_NAMES: Final = 5
"""Maximum number of names reported for one image."""
_OWN_PREFIXES: Final = ("kubelet.kubernetes.io/", "node.kubernetes.io/")
_ALLOWED_LABELS: Final = frozenset(
    (
        LABEL_HOSTNAME,
        LABEL_OS,
        LABEL_ARCH,
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    )
)
_REPLACE: Final = {"$patch": "replace"}


class _Words(Struct, frozen=True):
    """Reasons and messages of one pressure condition."""

    type: str
    bad: tuple[str, str]
    good: tuple[str, str]


_MEMORY: Final = _Words(
    "MemoryPressure",
    ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
)
_DISK: Final = _Words(
    "DiskPressure",
    ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
)
_PIDS: Final = _Words(
    "PIDPressure",
    ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def check_labels(labels: Iterable[str]) -> None:
    """Reject labels that a node may not set on itself (KEP-279). Raises Invalid naming them."""
    wrong = sorted(name for name in labels if not _may_have(name))
    if wrong:
        raise Invalid(
            f"--node-labels: {', '.join(wrong)}: a node may not set labels of kubernetes.io or k8s.io on itself, "
            "except kubelet.kubernetes.io, node.kubernetes.io and a few known ones"
        )


def _may_have(label: str) -> bool:
    domain = label.partition("/")[0] if "/" in label else ""
    if not (domain in ("kubernetes.io", "k8s.io") or domain.endswith((".kubernetes.io", ".k8s.io"))):
        return True
    own = tuple(prefix.rstrip("/") for prefix in _OWN_PREFIXES)
    return label in _ALLOWED_LABELS or domain in own or domain.endswith(tuple(f".{each}" for each in own))


def new_node(config: NodeConfig, status: NodeStatus, architecture: str) -> Node:
    """Return the Node object to register with."""
    annotations = {ANNOTATION_ATTACH: "true"} if config.controller_attach else {}
    annotations |= _cloud_annotations(config)
    meta = ObjectMeta(name=config.name, labels=_labels(config, architecture), annotations=annotations)
    taints = (*config.taints, UNINITIALIZED) if config.external_cloud else config.taints
    spec = NodeSpec(provider_id=config.provider_id, taints=taints)
    return Node(api_version="v1", kind="Node", metadata=meta, spec=spec, status=status)


def reconcile_patch(existing: Node, config: NodeConfig, architecture: str) -> dict[str, object] | None:
    """Return the merge patch that takes over an existing Node object; None if nothing has to change.

    Taints and labels stay as others have set them; only the labels that every node has are corrected.
    """
    wanted = {key: value for key, value in _labels(config, architecture).items() if key in _DEFAULT_LABELS}
    labels = {key: value for key, value in wanted.items() if existing.metadata.labels.get(key) != value}
    attached = existing.metadata.annotations.get(ANNOTATION_ATTACH)
    annotations: dict[str, str | None] = {}
    if config.controller_attach and attached != "true":
        annotations[ANNOTATION_ATTACH] = "true"
    elif not config.controller_attach and attached is not None:
        annotations[ANNOTATION_ATTACH] = None
    given = _cloud_annotations(config).get(ANNOTATION_IP)
    if existing.metadata.annotations.get(ANNOTATION_IP) != given:
        annotations[ANNOTATION_IP] = given
    patch: dict[str, object] = {}
    if labels or annotations:
        patch["metadata"] = {"labels": labels, "annotations": annotations}
    if config.provider_id and not existing.spec.provider_id:
        patch["spec"] = {"providerID": config.provider_id}
    return patch or None


def wrong_labels(node: Node, architecture: str) -> dict[str, str]:
    """Return the labels of operating system and architecture that others have changed or removed, as they must be."""
    wanted = {LABEL_OS: "linux", LABEL_ARCH: architecture}
    return {key: value for key, value in wanted.items() if node.metadata.labels.get(key) != value}


def _labels(config: NodeConfig, architecture: str) -> dict[str, str]:
    known = {LABEL_OS: "linux", _BETA_OS: "linux", LABEL_ARCH: architecture, _BETA_ARCH: architecture}
    return {LABEL_HOSTNAME: config.name, **known, **config.labels}


def _cloud_annotations(config: NodeConfig) -> dict[str, str]:
    return {ANNOTATION_IP: ",".join(config.given_ips)} if config.external_cloud and config.given_ips else {}


def node_status(facts: NodeState, before: NodeStatus, config: NodeConfig, now: Seconds) -> NodeStatus:
    """Compute the agent's part of the status; ``before`` is the last status, which tells since when conditions hold."""
    return NodeStatus(
        capacity=dict(facts.capacity),
        allocatable=dict(facts.allocatable),
        addresses=before.addresses if facts.addresses is None else facts.addresses,
        conditions=_conditions(facts, before.conditions, now),
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=facts.port)) if facts.port else None,
        node_info=facts.info,
        images=_images(facts.images, config.max_images),
        runtime_handlers=facts.handlers,
        features=NodeFeatures(supplemental_groups_policy=facts.supplemental_groups_policy)
        if facts.supplemental_groups_policy is not None
        else None,
        declared_features=DECLARED_FEATURES,
        volumes_in_use=_in_use(facts.volumes_in_use, before),
    )


def _in_use(found: VolumesInUse, before: NodeStatus) -> tuple[str, ...]:
    """Return the volumes that the controller must not detach: with those reported before if others may be in use."""
    return found.names if found.is_complete else tuple(sorted({*found.names, *before.volumes_in_use}))


def with_cloud_addresses(facts: NodeState, there: NodeStatus, config: NodeConfig) -> NodeState:
    """Return the facts with the addresses that the cloud controller has set, or else those that ``--node-ip`` selects.

    Without an external cloud provider the facts are returned unchanged.
    """
    if not config.external_cloud:
        return facts
    found = facts.addresses if config.has_given_ips else (NodeAddress(type="Hostname", address=config.name),)
    return replace(facts, addresses=there.addresses or found)


def node_addresses(ips: Iterable[str], name: str) -> tuple[NodeAddress, ...]:
    """Return the addresses of a status: those of the machine, and the node's name as its host name."""
    found = [NodeAddress(type="InternalIP", address=ip) for ip in ips]
    return (*found, NodeAddress(type="Hostname", address=name))


def host_ips(addresses: Iterable[NodeAddress]) -> tuple[str, ...]:
    """Return the node's addresses for pods: internal before external, at most one per address family."""
    listed = list(addresses)
    found = [each.address for kind in ("InternalIP", "ExternalIP") for each in listed if each.type == kind]
    return (*found[:1], *[ip for ip in found if (":" in ip) != (":" in found[0])][:1])


def is_newer(one: Node, other: Node) -> bool:
    """Return whether ``one`` is later, also of two objects of one name: versions are growing numbers (KEP-5504)."""
    versions = (one.metadata.resource_version, other.metadata.resource_version)
    return all(version.isdecimal() for version in versions) and int(versions[0]) > int(versions[1])


def is_ready(status: NodeStatus) -> bool:
    """Whether the node is reported as ready."""
    return any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions)


def status_patch(before: NodeStatus, after: NodeStatus, *, reset_extended: bool = False) -> dict[str, object]:
    """Return the strategic merge patch of ``nodes/status``; ``before`` is what the API server has.

    Conditions of others, and resources with a domain, which device plugins and people set, are not touched; with
    ``reset_extended`` extended resources become 0: nothing on this node offers them.
    """
    plain = to_builtins(after)
    assert isinstance(plain, dict)
    fields: dict[str, object] = {
        name: plain.get(name)
        for name in (
            *("daemonEndpoints", "nodeInfo", "images", "runtimeHandlers", "features", "declaredFeatures"),
            "volumesInUse",
        )
    }
    # Addresses are merged by type, and a dual-stack node has two of one type, so the list is replaced as a whole. If
    # there was no list before, the API server would take the replace directive for an address, so it is left out.
    if before.addresses != after.addresses:
        fields["addresses"] = [*plain.get("addresses", ()), *([_REPLACE] if before.addresses else [])]
    fields["conditions"] = [{"reason": None, "message": None, **each} for each in plain.get("conditions", ())]
    for name, old in (("capacity", before.capacity), ("allocatable", before.allocatable)):
        gone = dict.fromkeys(key for key in old if "/" not in key)
        stale = {key: "0" for key in old if reset_extended and is_extended(key)}
        fields[name] = {**gone, **stale, **plain.get(name, {})}
    return {"status": fields}


def conditions_overwritten(sent: NodeStatus, there: NodeStatus) -> bool:
    """Return whether the API server has other conditions than were sent.

    This happens when the node controller has set them to Unknown meanwhile, for example.
    """
    found = {condition.type: condition.status for condition in there.conditions}
    return any(found.get(condition.type) != condition.status for condition in sent.conditions)


def is_changed(before: NodeStatus, after: NodeStatus) -> bool:
    """Return whether two statuses differ in more than the heartbeat time."""
    return _without_heartbeat(before) != _without_heartbeat(after)


def _without_heartbeat(status: NodeStatus) -> NodeStatus:
    return replace(status, conditions=tuple(replace(c, last_heartbeat_time=None) for c in status.conditions))


def _conditions(facts: NodeState, before: Sequence[NodeCondition], now: Seconds) -> tuple[NodeCondition, ...]:
    pressure = facts.pressure
    wanted = [
        _pressure(_MEMORY, bad=pressure.memory),
        _pressure(_DISK, bad=pressure.disk),
        _pressure(_PIDS, bad=pressure.pids),
        _ready(facts.faults),
    ]
    known = {condition.type: condition for condition in before}
    at = time_from_unix(now)
    stamped = []
    for condition in wanted:
        old = known.get(condition.type)
        since = old.last_transition_time if old is not None and old.status == condition.status else at
        stamped.append(replace(condition, last_heartbeat_time=at, last_transition_time=since or at))
    return tuple(stamped)


def _pressure(words: _Words, *, bad: bool) -> NodeCondition:
    reason, message = words.bad if bad else words.good
    return NodeCondition(type=words.type, status=str(bad), reason=reason, message=message)


def _ready(faults: Sequence[str]) -> NodeCondition:
    if faults:
        message = faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"
        return NodeCondition(type="Ready", status="False", reason="KubeletNotReady", message=message)
    message = "kubelet is posting ready status"
    return NodeCondition(type="Ready", status="True", reason="KubeletReady", message=message)


def _images(images: Iterable[Image], limit: int) -> tuple[ContainerImage, ...]:
    """Return the largest images first: the scheduler is told of these."""
    ranked = sorted((image for image in images if image.names), key=lambda image: (-image.size, image.names))
    shown = ranked if limit < 0 else ranked[:limit]
    return tuple(ContainerImage(names=image.names[:_MAX_NAMES], size_bytes=image.size) for image in shown)
