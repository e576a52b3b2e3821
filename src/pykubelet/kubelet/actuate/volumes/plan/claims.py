"""Whether a pod may use a claim, and the volume bound to it. Pure; messages are those of the Go kubelet.

Sources: the Kubernetes API (`PersistentVolumeClaim`, `PersistentVolume`), KEP-1698 (generic ephemeral volumes).
"""

from collections.abc import Mapping
from typing import Final

from pykubelet.base.errors import Conflict, Invalid, Unsupported
from pykubelet.kubelet.actuate.volumes.plan.csi_migration import persistent
from pykubelet.kubelet.actuate.volumes.plan.pod_volumes import source_of
from pykubelet.kubelet.actuate.volumes.volume_source import CSI, LOCAL, Source
from pykubelet.kubelet.types.podspec import each_container
from pykubelet.models.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from pykubelet.models.node_match import matches_selector

GID_ANNOTATION: Final = "pv.beta.kubernetes.io/gid"
_PROTECTION: Final = "kubernetes.io/pvc-protection"
_BLOCK: Final = "Block"
_FILESYSTEM: Final = "Filesystem"
_BOUND: Final = "Bound"


def claim_name(pod: Pod, volume: Volume) -> str:
    """Name of the volume's claim, also of a generic ephemeral volume; empty for other kinds."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return ""


def used_volumes(pod: Pod) -> frozenset[str]:
    """Volumes that a container mounts or uses as a device."""
    found: set[str] = set()
    for _, container in each_container(pod):
        found.update(mount.name for mount in container.volume_mounts)
        found.update(device.name for device in container.volume_devices)
    return frozenset(found)


def check_claim(pod: Pod, volume: Volume, claim: PersistentVolumeClaim) -> None:
    """Raise Conflict if the pod must not use the claim, or not yet."""
    meta = claim.metadata
    if volume.ephemeral is not None:
        owner = next((ref for ref in meta.owner_references if ref.controller), None)
        if owner is None or owner.uid != pod.metadata.uid:
            raise Conflict(
                f"PVC {meta.namespace}/{meta.name} was not created for pod {pod.metadata.namespace}/"
                f"{pod.metadata.name} (pod is not owner)"
            )
    if meta.deletion_timestamp is not None and _PROTECTION not in meta.finalizers:
        raise Conflict("PVC is being deleted")
    if claim.status.phase != _BOUND:
        raise Conflict("PVC is not bound")
    if not claim.spec.volume_name:
        raise Conflict("PVC has empty pvc.Spec.VolumeName")


def source_of_claim(pod: Pod, volume: Volume, claim: PersistentVolumeClaim, pv: PersistentVolume) -> Source:
    """Return the source of a claim's volume. Raises Conflict, Invalid or Unsupported if the pod cannot use it."""
    _check_bound(claim, pv)
    _check_mode(pod, volume.name, pv)
    original, pv = pv, persistent(pv)
    given = volume.persistent_volume_claim
    spec, name = pv.spec, pv.metadata.name
    shown = Volume(name=name)
    if spec.csi is not None:
        kind = CSI
    elif spec.local is not None:
        kind = LOCAL
    elif spec.nfs is not None:
        shown = Volume(name=name, nfs=spec.nfs)
        kind = source_of(shown)
    elif spec.host_path is not None:
        shown = Volume(name=name, host_path=spec.host_path)
        kind = source_of(shown)
    else:
        raise Unsupported(
            f"PersistentVolume {name}: kind not supported by this agent, only csi, local, nfs and hostPath"
        )
    block = spec.volume_mode == _BLOCK
    if block and kind not in (CSI, LOCAL):
        raise Unsupported(f"PersistentVolume {name}: only csi and local volumes can have volumeMode Block")
    return Source(
        kind=kind,
        name=name,
        volume=shown,
        pv=pv,
        claim=f"{claim.metadata.namespace}/{claim.metadata.name}",
        read_only=given is not None and bool(given.read_only),
        block=block,
        migrated=pv is not original,
    )


def is_bound_to_nodes(pv: PersistentVolume) -> bool:
    """Whether only some nodes can use the volume."""
    return pv.spec.node_affinity is not None and pv.spec.node_affinity.required is not None


def check_node(pv: PersistentVolume, labels: Mapping[str, str]) -> None:
    """Raise Conflict if the volume's node affinity does not match a node with these labels.

    The scheduler does not check it for pods that are bound to a node by ``spec.nodeName``.
    """
    required = pv.spec.node_affinity.required if pv.spec.node_affinity is not None else None
    if required is not None and not matches_selector(required, "", labels):
        raise Conflict(
            f'MountVolume.NodeAffinity check failed for volume "{pv.metadata.name}": no matching NodeSelectorTerms'
        )


def supplemental_group(pv: PersistentVolume) -> int | None:
    """Supplemental group for the volume's users, by an annotation of the PersistentVolume; None without one."""
    text = pv.metadata.annotations.get(GID_ANNOTATION, "")
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _check_bound(claim: PersistentVolumeClaim, pv: PersistentVolume) -> None:
    reference, name = pv.spec.claim_ref, pv.metadata.name
    if reference is None:
        raise Conflict(
            f"found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        )
    if reference.uid != claim.metadata.uid:
        raise Conflict(
            f"found PV object {name} but its pv.Spec.ClaimRef.UID {reference.uid} does not point to claim.UID "
            f"{claim.metadata.uid}"
        )


def _check_mode(pod: Pod, name: str, pv: PersistentVolume) -> None:
    mode = pv.spec.volume_mode or _FILESYSTEM
    for _, container in each_container(pod):
        if mode != _FILESYSTEM and any(mount.name == name for mount in container.volume_mounts):
            raise Invalid(f"volume {name} has volumeMode {mode}, but is specified in volumeMounts")
        if mode != _BLOCK and any(device.name == name for device in container.volume_devices):
            raise Invalid(f"volume {name} has volumeMode {mode}, but is specified in volumeDevices")
