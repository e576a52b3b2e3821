"""CSI migration of each kind, as a PersistentVolume and in a pod's spec."""

import pytest

from pykubelet.base.errors import Invalid, PykubeletError, Unsupported
from pykubelet.kubelet.actuate.volumes.plan.csi_migration import KINDS, inline, persistent
from pykubelet.kubelet.types.storage import MIGRATED_PLUGINS
from pykubelet.models.codec import from_builtins, to_builtins
from pykubelet.models.core_v1 import PersistentVolume, Volume

Fields = dict[str, object]
GCE_ID = "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
SECRET = {"name": "azure-storage-account-acme-secret", "namespace": "ns"}


def csi(driver: str, handle: str, **fields: object) -> Fields:
    return {"driver": driver, "volumeHandle": handle, **fields}


def pv(spec: Fields, **meta: object) -> PersistentVolume:
    return from_builtins({"metadata": {"name": "pv1", **meta}, "spec": spec}, PersistentVolume)


def found(volume: PersistentVolume | None) -> object:
    assert volume is not None and volume.spec.csi is not None
    return to_builtins(volume.spec.csi)


EBS = "ebs.csi.aws.com"
DISK = "disk.csi.azure.com"
BOTH = [
    (
        {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-0a", "fsType": "xfs", "readOnly": True}},
        csi(EBS, "vol-0a", fsType="xfs", readOnly=True, volumeAttributes={"partition": "0"}),
    ),
    (
        {"awsElasticBlockStore": {"volumeID": "vol-0a", "partition": 2}},
        csi(EBS, "vol-0a", volumeAttributes={"partition": "2"}),
    ),
    (
        {"azureDisk": {"diskName": "d", "diskURI": "/subscriptions/x/disks/d", "kind": "managed"}},
        csi(DISK, "/subscriptions/x/disks/d", volumeAttributes={"kind": "Managed"}),
    ),
    (
        {"azureDisk": {"diskURI": "u", "cachingMode": "ReadOnly", "fsType": "ext4", "readOnly": False}},
        csi(
            DISK,
            "u",
            fsType="ext4",
            readOnly=False,
            volumeAttributes={"kind": "Managed", "cachingmode": "ReadOnly", "fstype": "ext4"},
        ),
    ),
    ({"cinder": {"volumeID": "c", "fsType": "ext4"}}, csi("cinder.csi.openstack.org", "c", fsType="ext4")),
    (
        {"gcePersistentDisk": {"pdName": "d", "partition": 3}},
        csi("pd.csi.storage.gke.io", GCE_ID, volumeAttributes={"partition": "3"}),
    ),
    (
        {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
        csi("pd.csi.storage.gke.io", GCE_ID, readOnly=True, volumeAttributes={"partition": ""}),
    ),
    ({"portworxVolume": {"volumeID": "p", "fsType": "xfs"}}, csi("pxd.portworx.com", "p", fsType="xfs")),
    (
        {"vsphereVolume": {"volumePath": "[ds] a.vmdk", "storagePolicyName": "gold", "storagePolicyID": "1"}},
        csi("csi.vsphere.vmware.com", "[ds] a.vmdk", volumeAttributes={"storagepolicyname": "gold"}),
    ),
]


@pytest.mark.parametrize(("spec", "wanted"), BOTH)
def test_a_kind_whose_form_is_the_same_in_both_places(spec: Fields, wanted: Fields) -> None:
    assert found(persistent(pv({**spec, "accessModes": ["ReadWriteOnce"]}))) == wanted
    assert found(inline(from_builtins({"name": "v", **spec}, Volume), "ns")) == wanted


@pytest.mark.parametrize(
    ("secret", "notes", "claim", "handle", "namespace"),
    [
        ("azure-storage-account-acme-secret", {}, {"namespace": "ns"}, "#acme#share#pv1#ns", "ns"),
        (
            "other",
            {"kubernetes.io/azure-file-resource-group": "rg"},
            {"namespace": "ns"},
            "rg#other#share#pv1#ns",
            "ns",
        ),
    ],
)
def test_azure_file_behind_a_claim_is_translated_to_csi(
    secret: str, notes: dict[str, str], claim: Fields, handle: str, namespace: str
) -> None:
    spec: Fields = {"azureFile": {"secretName": secret, "shareName": "share", "readOnly": True}, "claimRef": claim}
    assert found(persistent(pv(spec, annotations=notes))) == csi(
        "file.csi.azure.com",
        handle,
        readOnly=True,
        volumeAttributes={"sharename": "share"},
        nodeStageSecretRef={"name": secret, "namespace": namespace},
    )


def test_azure_file_in_a_pod_is_translated_to_csi() -> None:
    volume = from_builtins({"name": "v", "azureFile": {"secretName": SECRET["name"], "shareName": "s"}}, Volume)
    made = inline(volume, "ns")
    assert found(made) == csi(
        "file.csi.azure.com", "#acme#s#v#ns", volumeAttributes={"sharename": "s"}, nodeStageSecretRef=SECRET
    )
    assert made is not None and made.spec.access_modes == ("ReadWriteMany",) and made.metadata.name == "v"


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({"topology.kubernetes.io/zone": "europe-west1-b"}, "zones/europe-west1-b"),
        ({"failure-domain.beta.kubernetes.io/zone": "europe-west1-b__europe-west1-c"}, "regions/europe-west1"),
    ],
)
def test_gce_disk_handle_has_its_zone_or_region(labels: dict[str, str], place: str) -> None:
    made = persistent(pv({"gcePersistentDisk": {"pdName": "d"}}, labels=labels))
    assert made.spec.csi is not None and made.spec.csi.volume_handle == f"projects/UNSPECIFIED/{place}/disks/d"


@pytest.mark.parametrize(
    ("modes", "after"),
    [
        ([], ()),
        (["ReadWriteMany"], ("ReadWriteOnce",)),
        (["ReadOnlyMany"], ("ReadOnlyMany",)),
        (["ReadOnlyMany", "ReadWriteOnce"], ("ReadWriteOnce",)),
        (["ReadOnlyMany", "ReadWriteMany"], ("ReadWriteOnce",)),
    ],
)
def test_a_gce_disk_is_written_by_one_node(modes: list[str], after: tuple[str, ...]) -> None:
    assert persistent(pv({"gcePersistentDisk": {"pdName": "d"}, "accessModes": modes})).spec.access_modes == after


@pytest.mark.parametrize(
    ("field", "read_only", "mode"),
    [
        ("gcePersistentDisk", True, "ReadOnlyMany"),
        ("gcePersistentDisk", False, "ReadWriteOnce"),
        ("portworxVolume", True, "ReadOnlyMany"),
        ("portworxVolume", False, "ReadWriteOnce"),
        ("cinder", True, "ReadWriteOnce"),
    ],
)
def test_access_modes_in_a_pod(field: str, read_only: bool, mode: str) -> None:
    made = inline(from_builtins({"name": "v", field: {"readOnly": read_only}}, Volume), "ns")
    assert made is not None and made.spec.access_modes == (mode,)


def test_portworx_takes_its_secret_from_annotations() -> None:
    notes = {"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "ns"}
    made = persistent(pv({"portworxVolume": {"volumeID": "p"}}, annotations=notes)).spec.csi
    assert made is not None
    secrets = made.node_stage_secret_ref, made.node_publish_secret_ref, made.node_expand_secret_ref
    assert all(secret is not None and (secret.name, secret.namespace) == ("s", "ns") for secret in secrets)


@pytest.mark.parametrize(
    ("spec", "labels", "error", "message"),
    [
        ({"awsElasticBlockStore": {"volumeID": "aws://z/disk-1"}}, {}, Invalid, "Invalid format for AWS volume"),
        ({"azureDisk": {"kind": "Shared"}}, {}, Unsupported, r"kind\(Shared\) is not supported"),
        ({"azureFile": {"secretName": "s"}}, {}, Invalid, "could not find a secret namespace"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {"topology.kubernetes.io/zone": "a-b-c__x-y-z"},
            Invalid,
            "multiple or no regions",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {"topology.kubernetes.io/zone": "a-b__x-y"},
            Invalid,
            "zone in unexpected format",
        ),
    ],
)
def test_invalid_in_tree_volume_raises(
    spec: Fields, labels: dict[str, str], error: type[PykubeletError], message: str
) -> None:
    with pytest.raises(error, match=message):
        persistent(pv(spec, labels=labels))


def test_other_kinds_stay_as_they_are() -> None:
    local = pv({"local": {"path": "/x"}})
    assert persistent(local) is local
    assert inline(from_builtins({"name": "v", "emptyDir": {}}, Volume), "ns") is None


def test_each_kind_has_its_plugin() -> None:
    assert len(KINDS) == len(set(MIGRATED_PLUGINS))
    assert list(MIGRATED_PLUGINS) == sorted(MIGRATED_PLUGINS)
    assert set(Volume.__struct_fields__) >= KINDS
