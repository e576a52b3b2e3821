"""CSI migration (KEP-625): translates volumes of former in-tree plugins to volumes of their CSI drivers. Pure.

Objects keep their old form at the API server; every component translates them itself. Handle and attributes are what
the driver expects, and have to be the same in every component, since they identify the volume.
"""

import re
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec.structs import replace

from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.models.core_v1 import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFilePersistentVolumeSource,
    CinderPersistentVolumeSource,
    CinderVolumeSource,
    CSIPersistentVolumeSource,
    GCEPersistentDiskVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    PortworxVolumeSource,
    SecretReference,
    Volume,
    VsphereVirtualDiskVolumeSource,
)
from pykubelet.models.meta_v1 import ObjectMeta

AWS: Final = "ebs.csi.aws.com"
AZURE_DISK: Final = "disk.csi.azure.com"
AZURE_FILE: Final = "file.csi.azure.com"
CINDER: Final = "cinder.csi.openstack.org"
GCE: Final = "pd.csi.storage.gke.io"
PORTWORX: Final = "pxd.portworx.com"
VSPHERE: Final = "csi.vsphere.vmware.com"

KINDS: Final = frozenset(
    {
        *("aws_elastic_block_store", "azure_disk", "azure_file", "cinder"),
        *("gce_persistent_disk", "portworx_volume", "vsphere_volume"),
    }
)
"""Fields of volumes of former in-tree plugins."""
_ONCE, _READ_ONLY, _MANY = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
_UNSPECIFIED: Final = "UNSPECIFIED"
_ZONE_LABELS: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_ZONE_SEPARATOR: Final = "__"
_EBS_ID: Final = re.compile(r"vol-[^/]*")
_ACCOUNT: Final = re.compile(r"azure-storage-account-(.+)-secret")
_RESOURCE_GROUP: Final = "kubernetes.io/azure-file-resource-group"
_AUTH_NAME: Final = "openstorage.io/auth-secret-name"
_AUTH_NAMESPACE: Final = "openstorage.io/auth-secret-namespace"

_Source: TypeAlias = CSIPersistentVolumeSource


def persistent(pv: PersistentVolume) -> PersistentVolume:
    """Translate a PersistentVolume; other kinds are returned unchanged. Raises Invalid, Unsupported."""
    source = _source_of(pv)
    if source is None:
        return pv
    spec = replace(pv.spec, csi=source)
    return replace(pv, spec=replace(spec, access_modes=_modes_of_disk(spec.access_modes)) if _is_disk(pv) else spec)


def inline(volume: Volume, namespace: str) -> PersistentVolume | None:
    """Translate a volume of a pod's spec to a PersistentVolume of its CSI driver; None for other kinds.

    It has the name of the pod's volume, like its directory: unlike the name that the Go kubelet uses, this is always a
    valid path component. Raises Invalid, Unsupported.
    """
    found = _source_inline(volume, namespace)
    if found is None:
        return None
    source, mode = found
    spec = PersistentVolumeSpec(csi=source, access_modes=(mode,))
    return PersistentVolume(metadata=ObjectMeta(name=volume.name), spec=spec)


def _source_of(pv: PersistentVolume) -> _Source | None:
    spec = pv.spec
    if spec.aws_elastic_block_store is not None:
        return _aws(spec.aws_elastic_block_store)
    if spec.azure_disk is not None:
        return _azure_disk(spec.azure_disk)
    if spec.azure_file is not None:
        return _azure_share(pv, spec.azure_file)
    if spec.cinder is not None:
        return _cinder(spec.cinder)
    if spec.gce_persistent_disk is not None:
        return _gce(spec.gce_persistent_disk, _zones(pv))
    if spec.portworx_volume is not None:
        return _portworx(spec.portworx_volume, _secret_of(pv))
    return _vsphere(spec.vsphere_volume) if spec.vsphere_volume is not None else None


def _source_inline(volume: Volume, namespace: str) -> tuple[_Source, str] | None:
    """Translate a volume of a pod's spec; return it with its access mode, None for other kinds."""
    if volume.aws_elastic_block_store is not None:
        return _aws(volume.aws_elastic_block_store), _ONCE
    if volume.azure_disk is not None:
        return _azure_disk(volume.azure_disk), _ONCE
    if (share := volume.azure_file) is not None:
        ids = "", volume.name, namespace or "default"
        return _share(share.secret_name, share.share_name, ids, share.read_only), _MANY
    if volume.cinder is not None:
        return _cinder(volume.cinder), _ONCE
    if (disk := volume.gce_persistent_disk) is not None:
        return _gce(disk, []), _READ_ONLY if disk.read_only else _ONCE
    if (portworx := volume.portworx_volume) is not None:
        return _portworx(portworx, None), _READ_ONLY if portworx.read_only else _ONCE
    return (_vsphere(volume.vsphere_volume), _ONCE) if volume.vsphere_volume is not None else None


# -- each kind


def _aws(source: AWSElasticBlockStoreVolumeSource) -> _Source:
    attributes = {"partition": str(source.partition or 0)}
    return _csi(AWS, _ebs_id(source.volume_id), source.fs_type, attributes, read_only=source.read_only)


def _azure_disk(source: AzureDiskVolumeSource) -> _Source:
    if source.kind and source.kind.lower() != "managed":
        raise Unsupported(f"kind({source.kind}) is not supported in csi migration")
    attributes = {"kind": "Managed"}
    if source.caching_mode:
        attributes["cachingmode"] = source.caching_mode
    if source.fs_type:
        attributes["fstype"] = source.fs_type
    return _csi(AZURE_DISK, source.disk_uri, source.fs_type, attributes, read_only=source.read_only)


def _azure_share(pv: PersistentVolume, source: AzureFilePersistentVolumeSource) -> _Source:
    claim = pv.spec.claim_ref
    namespace = source.secret_namespace or (claim.namespace if claim is not None else "")
    if not namespace:
        raise Invalid("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    group = pv.metadata.annotations.get(_RESOURCE_GROUP, "")
    return _share(source.secret_name, source.share_name, (group, pv.metadata.name, namespace), source.read_only)


def _cinder(source: CinderPersistentVolumeSource | CinderVolumeSource) -> _Source:
    return _csi(CINDER, source.volume_id, source.fs_type, {}, read_only=source.read_only)


def _gce(source: GCEPersistentDiskVolumeSource, zones: list[str]) -> _Source:
    place = f"zones/{zones[0] if zones else _UNSPECIFIED}"
    if len(zones) > 1:
        place = f"regions/{_region(zones)}"
    handle = f"projects/{_UNSPECIFIED}/{place}/disks/{source.pd_name}"
    attributes = {"partition": str(source.partition) if source.partition else ""}
    return _csi(GCE, handle, source.fs_type, attributes, read_only=source.read_only)


def _portworx(source: PortworxVolumeSource, secret: SecretReference | None) -> _Source:
    found = _csi(PORTWORX, source.volume_id, source.fs_type, {}, read_only=None)
    return replace(
        found,
        controller_publish_secret_ref=secret,
        node_stage_secret_ref=secret,
        node_publish_secret_ref=secret,
        controller_expand_secret_ref=secret,
        node_expand_secret_ref=secret,
    )


def _vsphere(source: VsphereVirtualDiskVolumeSource) -> _Source:
    policy = {"storagepolicyname": source.storage_policy_name} if source.storage_policy_name else {}
    return _csi(VSPHERE, source.volume_path, source.fs_type, policy, read_only=None)


# -- helpers


def _csi(driver: str, handle: str, fs_type: str, attributes: dict[str, str], *, read_only: bool | None) -> _Source:
    return _Source(
        driver=driver, volume_handle=handle, fs_type=fs_type, volume_attributes=attributes, read_only=read_only
    )


def _share(secret: str, share: str, ids: tuple[str, str, str], read_only: bool | None) -> _Source:
    """Azure file share; ``ids`` are the resource group, the volume's name and the Secret's namespace."""
    group, name, namespace = ids
    account = _ACCOUNT.search(secret)
    handle = "#".join((group, account[1] if account else secret, share, name, namespace))
    found = _csi(AZURE_FILE, handle, "", {"sharename": share}, read_only=read_only)
    return replace(found, node_stage_secret_ref=SecretReference(name=secret, namespace=namespace))


def _ebs_id(text: str) -> str:
    """``aws://zone/vol-…`` is the long form of ``vol-…``."""
    if not text.startswith("aws://"):
        return text
    short = urlsplit(text).path.strip("/")
    if not _EBS_ID.fullmatch(short):
        raise Invalid(f"Invalid format for AWS volume ({text})")
    return short


def _zones(pv: PersistentVolume) -> list[str]:
    label = next((found for name in _ZONE_LABELS if (found := pv.metadata.labels.get(name))), "")
    return label.split(_ZONE_SEPARATOR) if label else []


def _region(zones: list[str]) -> str:
    """``europe-west1`` of ``europe-west1-b``."""
    for zone in zones:
        if len(zone.split("-")) != 3:
            raise Invalid(f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}")
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(regions) != 1:
        raise Invalid(f"multiple or no regions gotten from zones, got: {sorted(regions)}")
    return regions.pop()


def _is_disk(pv: PersistentVolume) -> bool:
    return pv.spec.gce_persistent_disk is not None


def _modes_of_disk(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Access modes of a disk: never writable by several nodes, since the driver would reject that."""
    if not modes:
        return ()
    return (_READ_ONLY,) if set(modes) == {_READ_ONLY} else (_ONCE,)


def _secret_of(pv: PersistentVolume) -> SecretReference | None:
    notes = pv.metadata.annotations
    if _AUTH_NAME not in notes or _AUTH_NAMESPACE not in notes:
        return None
    return SecretReference(name=notes[_AUTH_NAME], namespace=notes[_AUTH_NAMESPACE])
