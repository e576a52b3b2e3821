"""Rules for CSI calls, from the objects of the API. Pure.

Sources: the CSI specification 1.11 (Node service) and the Kubernetes API (`CSIDriver`, `PersistentVolume`).
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.kubelet.actuate.volumes.csi.csi_types import Capabilities, CsiVolume, VolumeRef
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.models.core_v1 import PersistentVolume, Pod, SecretReference, Volume
from pykubelet.models.storage_v1 import CSIDriver
from pykubelet.pb import csi_v1_pb2 as pb

TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"
"""Key of the service account tokens that the CSIDriver object requests."""
_EPHEMERAL: Final = "Ephemeral"
_PERSISTENT: Final = "Persistent"
_BLOCK: Final = "Block"
_DEFAULT_POLICY: Final = "ReadWriteOnceWithFSType"
_ONE_WRITER: Final = ("ReadWriteOnce", "ReadWriteOncePod")
_DRIVER_NAME_LENGTH: Final = 63
_HANDLE_LENGTH: Final = 65_536
"""Of a volume whose record is too long to be read again, no one would know that it is mounted."""
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DRIVER_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
"""A DNS name, as in the objects of the API."""

_Mode = pb.VolumeCapability.AccessMode


def volume_of(pod: Pod, source: Source) -> CsiVolume:
    """Return the CSI volume of a pod's volume. Raises Invalid."""
    if source.pv is None:
        return inline_volume(pod, source.volume)
    return persistent_volume(source.pv, read_only=source.read_only)


def inline_volume(pod: Pod, volume: Volume) -> CsiVolume:
    """Return the CSI volume of an inline volume in the pod's spec. Raises Invalid for an invalid driver name."""
    source = volume.csi
    assert source is not None
    secret = source.node_publish_secret_ref
    namespace = pod.metadata.namespace or "default"
    digest = sha256(f"{pod.metadata.uid}{volume.name}".encode()).hexdigest()
    return CsiVolume(
        ref=VolumeRef(driver_name(source.driver), f"csi-{digest}"),
        name=volume.name,
        ephemeral=True,
        read_only=bool(source.read_only),
        fs_type=source.fs_type,
        attributes=source.volume_attributes,
        publish_secret=SecretReference(name=secret.name, namespace=namespace) if secret and secret.name else None,
    )


def persistent_volume(pv: PersistentVolume, *, read_only: bool) -> CsiVolume:
    """Return the CSI volume of a PersistentVolume. Raises Invalid without a volume handle, or with a long one."""
    source = pv.spec.csi
    assert source is not None
    if not source.volume_handle:
        raise Invalid(f"PersistentVolume {pv.metadata.name}: spec.csi.volumeHandle is empty")
    if len(source.volume_handle) > _HANDLE_LENGTH:
        raise Invalid(
            f"PersistentVolume {pv.metadata.name}: spec.csi.volumeHandle has {len(source.volume_handle)} characters; "
            f"the limit is {_HANDLE_LENGTH}"
        )
    return CsiVolume(
        ref=VolumeRef(driver_name(source.driver), source.volume_handle),
        name=pv.metadata.name,
        block=pv.spec.volume_mode == _BLOCK,
        read_only=read_only,
        fs_type=source.fs_type,
        attributes=source.volume_attributes,
        mount_options=pv.spec.mount_options,
        access_modes=pv.spec.access_modes,
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
        expand_secret=source.node_expand_secret_ref,
    )


def driver_name(name: str) -> str:
    """Return the name if it is a valid driver name; it becomes part of paths. Raises Invalid."""
    if len(name) > _DRIVER_NAME_LENGTH or not _DRIVER_NAME.fullmatch(name):
        raise Invalid(f"invalid CSI driver name {name!r}: use at most 63 letters, digits, '-' and '.'")
    return name


def attachment_name(ref: VolumeRef, node: str) -> str:
    """Name of the VolumeAttachment object for a volume on a node."""
    return f"csi-{sha256(f'{ref.handle}{ref.driver}{node}'.encode()).hexdigest()}"


def needs_attach(driver: CSIDriver | None) -> bool:
    """Whether a controller has to attach volumes to the node first (`attachRequired`); the default is yes."""
    return driver is None or driver.spec.attach_required is not False


def heeds_limit(driver: CSIDriver | None) -> bool:
    """Whether pods fail for which the node can have no more volumes: only if the driver tells changes of its limit.

    Otherwise the scheduler would place the pod's successor on this node again (KEP-4876).
    """
    return driver is not None and bool(driver.spec.node_allocatable_update_period_seconds)


def check_lifecycle(volume: CsiVolume, driver: CSIDriver | None) -> None:
    """Raise Unsupported, with the message of the Go kubelet, if the driver does not support this lifecycle mode."""
    mode = _EPHEMERAL if volume.ephemeral else _PERSISTENT
    name = volume.ref.driver
    if driver is None:
        if volume.ephemeral:
            raise Unsupported(
                f'volume mode "{mode}" not supported by driver {name} (no CSIDriver object); create the CSIDriver '
                f"object with {mode} in its volumeLifecycleModes"
            )
        return
    modes = driver.spec.volume_lifecycle_modes or (_PERSISTENT,)
    if mode not in modes:
        supported = " ".join(f'"{each}"' for each in modes)
        raise Unsupported(f'volume mode "{mode}" not supported by driver {name} (only supports [{supported}])')


def supports_fs_group(volume: CsiVolume, driver: CSIDriver | None) -> bool:
    """Whether the agent changes the volume's group to the pod's fsGroup (KEP-1682)."""
    policy = (driver.spec.fs_group_policy if driver is not None else "") or _DEFAULT_POLICY
    if policy == "None" or volume.read_only or volume.block:
        return False
    if policy == "File":
        return True
    if not volume.fs_type:
        return False
    return volume.ephemeral or any(mode in _ONE_WRITER for mode in volume.access_modes)


def publish_context_of(
    volume: CsiVolume, pod: Pod, driver: CSIDriver | None, tokens: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the volume context for NodePublishVolume, and additional secrets.

    With ``podInfoOnMount`` the context has facts of the pod. ``tokens`` is empty if the driver requests none.
    """
    attributes = dict(volume.attributes)
    secrets: dict[str, str] = {}
    if driver is not None and driver.spec.pod_info_on_mount:
        attributes |= _pod_info(pod, ephemeral=volume.ephemeral)
    if driver is not None and tokens:
        (secrets if driver.spec.service_account_token_in_secrets else attributes)[TOKENS] = tokens
    return attributes, secrets


def _pod_info(pod: Pod, *, ephemeral: bool) -> dict[str, str]:
    return {
        "csi.storage.k8s.io/pod.name": pod.metadata.name,
        "csi.storage.k8s.io/pod.namespace": pod.metadata.namespace or "default",
        "csi.storage.k8s.io/pod.uid": pod.metadata.uid,
        "csi.storage.k8s.io/serviceAccount.name": pod.spec.service_account_name,
        "csi.storage.k8s.io/ephemeral": "true" if ephemeral else "false",
    }


def access_mode(modes: Sequence[str], capabilities: Capabilities) -> "pb.VolumeCapability.AccessMode.Mode.ValueType":
    """CSI access mode for the first access mode of a PersistentVolume; the default is ReadWriteOnce."""
    one, pod = _Mode.SINGLE_NODE_WRITER, _Mode.SINGLE_NODE_WRITER
    if capabilities.single_node_multi_writer:
        one, pod = _Mode.SINGLE_NODE_MULTI_WRITER, _Mode.SINGLE_NODE_SINGLE_WRITER
    match modes[0] if modes else "ReadWriteOnce":
        case "ReadWriteOnce":
            return one
        case "ReadWriteOncePod":
            return pod
        case "ReadOnlyMany":
            return _Mode.MULTI_NODE_READER_ONLY
        case "ReadWriteMany":
            return _Mode.MULTI_NODE_MULTI_WRITER
        case _:
            return _Mode.UNKNOWN


def capability(volume: CsiVolume, capabilities: Capabilities, group: int | None) -> pb.VolumeCapability:
    """Volume capability for the pod. ``group`` is the fsGroup, for a driver that applies it itself."""
    mode = pb.VolumeCapability.AccessMode(mode=access_mode(volume.access_modes, capabilities))
    if volume.block:
        return pb.VolumeCapability(block=pb.VolumeCapability.BlockVolume(), access_mode=mode)
    mount = pb.VolumeCapability.MountVolume(
        fs_type=volume.fs_type,
        mount_flags=volume.mount_options,
        volume_mount_group=str(group) if group is not None and capabilities.mount_group else "",
    )
    return pb.VolumeCapability(mount=mount, access_mode=mode)


def capabilities_of(reply: pb.NodeGetCapabilitiesResponse) -> Capabilities:
    """Convert the driver's capabilities; unknown ones are ignored."""
    found = {each.rpc.type for each in reply.capabilities}
    kind = pb.NodeServiceCapability.RPC
    return Capabilities(
        stage=kind.STAGE_UNSTAGE_VOLUME in found,
        stats=kind.GET_VOLUME_STATS in found,
        expand=kind.EXPAND_VOLUME in found,
        condition=kind.VOLUME_CONDITION in found,
        single_node_multi_writer=kind.SINGLE_NODE_MULTI_WRITER in found,
        mount_group=kind.VOLUME_MOUNT_GROUP in found,
    )


def sizes_of(reply: pb.NodeGetVolumeStatsResponse) -> VolumeSizes:
    """Convert volume stats; unknown units are ignored."""
    units = {usage.unit: usage for usage in reply.usage}
    size, inodes = units.get(pb.VolumeUsage.BYTES), units.get(pb.VolumeUsage.INODES)
    return VolumeSizes(
        capacity=size.total if size else None,
        available=size.available if size else None,
        used=size.used if size else None,
        inodes=inodes.total if inodes else None,
        inodes_free=inodes.available if inodes else None,
        inodes_used=inodes.used if inodes else None,
    )


def check_versions(name: str, versions: Sequence[str]) -> None:
    """Raise Unsupported unless the driver supports CSI 1.x."""
    if not any(version.removeprefix("v").split(".")[0] == "1" for version in versions):
        raise Unsupported(f"CSI driver {name} supports versions {list(versions)}; this agent supports 1.x")


def secret_values(data: Mapping[str, bytes]) -> dict[str, str]:
    """Decode a Secret's data for a driver. Raises Invalid for bytes that are not UTF-8."""
    try:
        return {key: value.decode() for key, value in data.items()}
    except UnicodeDecodeError as error:
        raise Invalid("invalid Secret for the CSI driver: a value is not UTF-8 text") from error
