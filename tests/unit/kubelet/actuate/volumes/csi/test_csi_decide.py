"""Rules for CSI calls by the objects of the API."""

from hashlib import sha256
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Unsupported
from pykubelet.kubelet.actuate.volumes.csi.csi_layout import CsiLayout
from pykubelet.kubelet.actuate.volumes.csi.csi_types import Capabilities, CsiVolume, VolumeRef
from pykubelet.kubelet.actuate.volumes.csi.plan import csi_rules
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import PersistentVolume, Pod
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.storage_v1 import CSIDriver, CSIDriverSpec
from pykubelet.pb import csi_v1_pb2 as pb

REF = VolumeRef("d.example.com", "vol-1")
POD = from_builtins(
    {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "spec": {
            "serviceAccountName": "robot",
            "containers": [],
            "volumes": [
                {
                    "name": "data",
                    "csi": {
                        "driver": "d.example.com",
                        "fsType": "ext4",
                        "readOnly": True,
                        "volumeAttributes": {"a": "b"},
                        "nodePublishSecretRef": {"name": "s"},
                    },
                }
            ],
        },
    },
    Pod,
)


def _driver(**spec: object) -> CSIDriver:
    return from_builtins({"metadata": {"name": "d.example.com"}, "spec": spec}, CSIDriver)


def test_an_inline_volume_has_a_handle_of_its_own() -> None:
    volume = csi_rules.inline_volume(POD, POD.spec.volumes[0])
    assert volume.ref.handle == f"csi-{sha256(b'u1data').hexdigest()}"
    assert volume.ephemeral and volume.read_only and volume.fs_type == "ext4" and volume.attributes == {"a": "b"}
    assert volume.publish_secret is not None and volume.publish_secret.namespace == "shop"


def test_persistent_volume_becomes_a_csi_volume() -> None:
    pv = from_builtins(
        {
            "metadata": {"name": "pv1"},
            "spec": {
                "csi": {"driver": "d.example.com", "volumeHandle": "h", "fsType": "xfs"},
                "volumeMode": "Block",
                "accessModes": ["ReadWriteMany"],
                "mountOptions": ["noatime"],
            },
        },
        PersistentVolume,
    )
    volume = csi_rules.persistent_volume(pv, read_only=True)
    assert volume == CsiVolume(
        ref=VolumeRef("d.example.com", "h"),
        name="pv1",
        block=True,
        read_only=True,
        fs_type="xfs",
        access_modes=("ReadWriteMany",),
        mount_options=("noatime",),
    )
    assert volume.ref.unique_name == "kubernetes.io/csi/d.example.com^h"


def test_volume_of_a_handle_that_its_record_has_no_room_for_is_refused(tmp_path: Path) -> None:
    """No one would unmount it: a record that is too long to be read counts as missing."""

    def pv(handle: str) -> PersistentVolume:
        csi = {"driver": "d.example.com", "volumeHandle": handle}
        return from_builtins({"metadata": {"name": "pv1"}, "spec": {"csi": csi}}, PersistentVolume)

    layout, volume = CsiLayout(PodDirs(tmp_path)), csi_rules.persistent_volume(pv("\x01" * 65_536), read_only=False)
    layout.prepare_stage(volume)
    assert [staged.ref for staged in layout.staged()] == [volume.ref]
    with pytest.raises(Invalid, match=r"PersistentVolume pv1: spec\.csi\.volumeHandle has 65537 characters"):
        csi_rules.persistent_volume(pv("h" * 65_537), read_only=False)


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-a", "a-", "a" * 64, "a b", "a..b", "a.-b", "é.b", "a\n"])
def test_invalid_driver_name_raises(name: str) -> None:
    with pytest.raises(Invalid, match="invalid CSI driver name"):
        csi_rules.driver_name(name)


def test_attachment_name_is_that_of_the_go_kubelet() -> None:
    assert csi_rules.attachment_name(REF, "node-a") == f"csi-{sha256(b'vol-1d.example.comnode-a').hexdigest()}"


@pytest.mark.parametrize(
    ("driver", "expected"),
    [(None, True), (_driver(), True), (_driver(attachRequired=True), True), (_driver(attachRequired=False), False)],
)
def test_needs_attach_by_csi_driver_object(driver: CSIDriver | None, expected: bool) -> None:
    assert csi_rules.needs_attach(driver) is expected


@pytest.mark.parametrize(
    ("ephemeral", "driver", "complaint"),
    [
        (False, None, ""),
        (True, None, "no CSIDriver object"),
        (False, _driver(), ""),
        (True, _driver(), 'only supports \\["Persistent"\\]'),
        (True, _driver(volumeLifecycleModes=["Ephemeral"]), ""),
        (False, _driver(volumeLifecycleModes=["Ephemeral"]), 'volume mode "Persistent" not supported'),
        (False, _driver(volumeLifecycleModes=["Persistent", "Ephemeral"]), ""),
    ],
)
def test_ephemeral_volume_needs_a_driver_with_that_lifecycle_mode(
    ephemeral: bool, driver: CSIDriver | None, complaint: str
) -> None:
    volume = CsiVolume(ref=REF, name="v", ephemeral=ephemeral)
    if complaint:
        with pytest.raises(Unsupported, match=complaint):
            csi_rules.check_lifecycle(volume, driver)
    else:
        csi_rules.check_lifecycle(volume, driver)


@pytest.mark.parametrize(
    ("policy", "fs_type", "modes", "read_only", "ephemeral", "expected"),
    [
        ("", "ext4", ("ReadWriteOnce",), False, False, True),
        ("", "ext4", ("ReadWriteOncePod",), False, False, True),
        ("", "", ("ReadWriteOnce",), False, False, False),
        ("", "ext4", ("ReadWriteMany",), False, False, False),
        ("", "ext4", (), False, False, False),
        ("", "ext4", (), False, True, True),
        ("", "ext4", ("ReadWriteOnce",), True, False, False),
        ("File", "", ("ReadWriteMany",), False, False, True),
        ("File", "", ("ReadWriteMany",), True, False, False),
        ("None", "ext4", ("ReadWriteOnce",), False, False, False),
    ],
)
def test_fs_group_is_supported_as_the_drivers_policy_says(
    policy: str, fs_type: str, modes: tuple[str, ...], read_only: bool, ephemeral: bool, expected: bool
) -> None:
    volume = CsiVolume(ref=REF, name="v", fs_type=fs_type, access_modes=modes, read_only=read_only, ephemeral=ephemeral)
    driver = CSIDriver(metadata=ObjectMeta(name="d"), spec=CSIDriverSpec(fs_group_policy=policy)) if policy else None
    assert csi_rules.supports_fs_group(volume, driver) is expected


def test_pod_info_and_tokens_are_among_the_attributes() -> None:
    volume = CsiVolume(ref=REF, name="v", ephemeral=True, attributes={"a": "b"})
    attributes, secrets = csi_rules.publish_context_of(volume, POD, _driver(podInfoOnMount=True), "{}")
    assert attributes == {
        "a": "b",
        "csi.storage.k8s.io/pod.name": "web",
        "csi.storage.k8s.io/pod.namespace": "shop",
        "csi.storage.k8s.io/pod.uid": "u1",
        "csi.storage.k8s.io/serviceAccount.name": "robot",
        "csi.storage.k8s.io/ephemeral": "true",
        "csi.storage.k8s.io/serviceAccount.tokens": "{}",
    }
    assert secrets == {}


def test_tokens_are_in_secrets_if_the_driver_requires_it() -> None:
    volume = CsiVolume(ref=REF, name="v")
    attributes, secrets = csi_rules.publish_context_of(volume, POD, _driver(serviceAccountTokenInSecrets=True), "{}")
    assert attributes == {} and secrets == {"csi.storage.k8s.io/serviceAccount.tokens": "{}"}
    assert csi_rules.publish_context_of(volume, POD, None, "")[0] == {}


@pytest.mark.parametrize(
    ("modes", "multi", "expected"),
    [
        ((), False, "SINGLE_NODE_WRITER"),
        (("ReadWriteOnce",), True, "SINGLE_NODE_MULTI_WRITER"),
        (("ReadWriteOncePod",), True, "SINGLE_NODE_SINGLE_WRITER"),
        (("ReadWriteOncePod",), False, "SINGLE_NODE_WRITER"),
        (("ReadOnlyMany", "ReadWriteOnce"), False, "MULTI_NODE_READER_ONLY"),
        (("ReadWriteMany",), True, "MULTI_NODE_MULTI_WRITER"),
    ],
)
def test_access_mode_follows_modes_and_capabilities(modes: tuple[str, ...], multi: bool, expected: str) -> None:
    found = csi_rules.access_mode(modes, Capabilities(single_node_multi_writer=multi))
    assert pb.VolumeCapability.AccessMode.Mode.Name(found) == expected


def test_fs_group_is_passed_only_to_drivers_with_the_capability() -> None:
    volume = CsiVolume(ref=REF, name="v", fs_type="ext4", mount_options=("ro",))
    found = csi_rules.capability(volume, Capabilities(mount_group=True), 7)
    assert found.mount.volume_mount_group == "7" and list(found.mount.mount_flags) == ["ro"]
    assert csi_rules.capability(volume, Capabilities(), 7).mount.volume_mount_group == ""
    assert csi_rules.capability(CsiVolume(ref=REF, name="v", block=True), Capabilities(), 7).HasField("block")


@pytest.mark.parametrize(
    ("versions", "fine"), [(["1.0.0"], True), (["v1.2"], True), (["0.3", "2.0"], False), ([], False)]
)
def test_driver_without_a_supported_version_is_refused(versions: list[str], fine: bool) -> None:
    if fine:
        csi_rules.check_versions("d", versions)
    else:
        with pytest.raises(Unsupported):
            csi_rules.check_versions("d", versions)


def test_secrets_are_text() -> None:
    assert csi_rules.secret_values({"a": b"b"}) == {"a": "b"}
    with pytest.raises(Invalid):
        csi_rules.secret_values({"a": b"\xff"})
