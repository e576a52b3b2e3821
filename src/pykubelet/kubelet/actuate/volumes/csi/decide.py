"""What the agent asks of a CSI driver and when, from the objects of the API. Pure.

Sources: the CSI specification 1.11 (Node service) and the Kubernetes API (`CSIDriver`, `PersistentVolume`).
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.kubelet.actuate.volumes.csi.types import Capabilities, CsiVolume, VolumeRef
from pykubelet.kubelet.actuate.volumes.source import Source
from pykubelet.kubelet.types.storage import VolumeSizes
from pykubelet.models.core_v1 import PersistentVolume, Pod, SecretReference, Volume
from pykubelet.models.storage_v1 import CSIDriver
from pykubelet.pb import csi_v1_pb2 as pb

TOKENS: Final = "csi.storage.k8s.io/serviceAccount.tokens"
"""Where drivers look for the tokens that their CSIDriver object asks for."""
_EPHEMERAL: Final = "Ephemeral"
_PERSISTENT: Final = "Persistent"
_BLOCK: Final = "Block"
_BY_DEFAULT: Final = "ReadWriteOnceWithFSType"
_ONE_WRITER: Final = ("ReadWriteOnce", "ReadWriteOncePod")
_DRIVER_NAME_LENGTH: Final = 63

_Mode = pb.VolumeCapability.AccessMode


def volume_of(pod: Pod, source: Source) -> CsiVolume:
    """The driver's volume behind a volume of a pod. Invalid when it cannot be one."""
    if source.pv is None:
        return inline_volume(pod, source.volume)
    return persistent_volume(source.pv, read_only=source.read_only)


def inline_volume(pod: Pod, volume: Volume) -> CsiVolume:
    """The volume that a pod's spec gives itself. Invalid for a driver's name that cannot be one."""
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
    """The volume of a PersistentVolume; ``read_only`` as the pod's claim says. Invalid when it names no volume."""
    source = pv.spec.csi
    assert source is not None
    if not source.volume_handle:
        raise Invalid(f"PersistentVolume {pv.metadata.name}: spec.csi.volumeHandle is empty")
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
    """The name itself if a driver may have it; it becomes part of a path."""
    ends = name[:1].isalnum() and name[-1:].isalnum()
    if not ends or len(name) > _DRIVER_NAME_LENGTH or not all(c.isalnum() or c in "-." for c in name):
        raise Invalid(f"{name!r} cannot be a CSI driver's name: at most 63 letters, digits, '-' and '.'")
    return name


def attachment_name(ref: VolumeRef, node: str) -> str:
    """Name of the VolumeAttachment object for a volume on a node."""
    return f"csi-{sha256(f'{ref.handle}{ref.driver}{node}'.encode()).hexdigest()}"


def needs_attach(driver: CSIDriver | None) -> bool:
    """Whether volumes are attached to the node by a controller before the node may use them; yes if nobody says no."""
    return driver is None or driver.spec.attach_required is not False


def check_lifecycle(volume: CsiVolume, driver: CSIDriver | None) -> None:
    """Unsupported, with the reference's text, when the driver does not offer this kind of volume."""
    mode = _EPHEMERAL if volume.ephemeral else _PERSISTENT
    name = volume.ref.driver
    if driver is None:
        if volume.ephemeral:
            raise Unsupported(
                f'volume mode "{mode}" not supported by driver {name} (no CSIDriver object); whoever installs the '
                f"driver creates that object, with {mode} among its volumeLifecycleModes"
            )
        return
    modes = driver.spec.volume_lifecycle_modes or (_PERSISTENT,)
    if mode not in modes:
        told = " ".join(f'"{each}"' for each in modes)
        raise Unsupported(f'volume mode "{mode}" not supported by driver {name} (only supports [{told}])')


def supports_fs_group(volume: CsiVolume, driver: CSIDriver | None) -> bool:
    """Whether the agent gives the volume to the pod's fsGroup (KEP-1682)."""
    policy = (driver.spec.fs_group_policy if driver is not None else "") or _BY_DEFAULT
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
    """The volume's attributes as the driver gets them at publication, and what is to be added to the secrets.

    With ``podInfoOnMount`` facts of the pod are among the attributes. ``tokens`` is empty if none are asked for.
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
    """The driver's word for the first access mode of a PersistentVolume; without any it is ReadWriteOnce."""
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
    """How the pod will use the volume. ``group`` is the fsGroup for a driver that sees to it itself."""
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
    """What the driver can do; kinds that are newer than this agent are passed over."""
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
    """A driver's figures; units that are newer than this agent are passed over."""
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
    """Unsupported unless the driver speaks a version 1 of CSI."""
    if not any(version.removeprefix("v").split(".")[0] == "1" for version in versions):
        raise Unsupported(f"CSI driver {name} offers versions {list(versions)}; this agent speaks 1.x")


def secret_values(data: Mapping[str, bytes]) -> dict[str, str]:
    """A Secret's data as a driver gets it, which is text. Invalid for bytes that are none."""
    try:
        return {key: value.decode() for key, value in data.items()}
    except UnicodeDecodeError as error:
        raise Invalid("the Secret for the CSI driver holds bytes that are no UTF-8 text") from error
