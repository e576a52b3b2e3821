"""Claims that a pod may use, and the sources of their volumes."""

from typing import Any

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.volumes.plan import claims
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume

Fields = dict[str, Any]


def pod(volume: Fields, *containers: Fields) -> Pod:
    meta = {"name": "web", "namespace": "shop", "uid": "u-1"}
    spec = {"containers": list(containers), "volumes": [{"name": "data", **volume}]}
    return from_builtins({"metadata": meta, "spec": spec}, Pod)


CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
EPHEMERAL: Fields = {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def claim(phase: str = "Bound", volume: str = "pv1", **meta: object) -> PersistentVolumeClaim:
    return from_builtins(
        {
            "metadata": {"name": "c", "namespace": "shop", "uid": "c-1", **meta},
            "spec": {"volumeName": volume},
            "status": {"phase": phase},
        },
        PersistentVolumeClaim,
    )


def volume(uid: str | None = "c-1", **spec: object) -> PersistentVolume:
    reference = {"claimRef": {"uid": uid}} if uid else {}
    return from_builtins({"metadata": {"name": "pv1"}, "spec": {**reference, **spec}}, PersistentVolume)


def owned(uid: str) -> Fields:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": True}]}


@pytest.mark.parametrize(
    ("source", "found", "complaint"),
    [
        (CLAIM, claim(), ""),
        (CLAIM, claim("Pending", ""), "PVC is not bound"),
        (CLAIM, claim("Lost"), "PVC is not bound"),
        (CLAIM, claim(volume=""), "PVC has empty pvc.Spec.VolumeName"),
        (CLAIM, claim(deletionTimestamp="2026-01-01T00:00:00Z"), "PVC is being deleted"),
        (
            CLAIM,
            claim(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["kubernetes.io/pvc-protection"]),
            "",
        ),
        (EPHEMERAL, claim(**owned("u-1")), ""),
        (EPHEMERAL, claim(**owned("u-2")), "PVC shop/c was not created for pod shop/web (pod is not owner)"),
        (EPHEMERAL, claim(), "pod is not owner"),
    ],
)
def test_claims_a_pod_may_use(source: Fields, found: PersistentVolumeClaim, complaint: str) -> None:
    made = pod(source)
    problem = ""
    try:
        claims.check_claim(made, made.spec.volumes[0], found)
    except PykubeletError as error:
        problem = str(error)
    assert complaint in problem and bool(problem) == bool(complaint)


def test_claim_name_is_given_by_the_volume_or_derived_from_the_pod() -> None:
    assert claims.claim_name(pod(CLAIM), pod(CLAIM).spec.volumes[0]) == "c"
    assert claims.claim_name(pod(EPHEMERAL), pod(EPHEMERAL).spec.volumes[0]) == "web-data"
    assert claims.claim_name(pod({}), Volume(name="data")) == ""


def test_only_what_a_container_uses_counts() -> None:
    made = pod(CLAIM, {"name": "a", "volumeMounts": [{"name": "x"}]}, {"name": "b", "volumeDevices": [{"name": "y"}]})
    assert claims.used_volumes(made) == {"x", "y"}


@pytest.mark.parametrize(
    ("spec", "kind", "block"),
    [
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, "csi", False),
        ({"csi": {"driver": "d", "volumeHandle": "h"}, "volumeMode": "Block"}, "csi", True),
        ({"local": {"path": "/x"}}, "local", False),
        ({"nfs": {"server": "s", "path": "/x"}, "volumeMode": "Filesystem"}, "nfs", False),
        ({"hostPath": {"path": "/x"}}, "host_path", False),
    ],
)
def test_source_of_a_claim_is_that_of_its_volume(spec: Fields, kind: str, block: bool) -> None:
    made = pod({"persistentVolumeClaim": {"claimName": "c", "readOnly": True}})
    source = claims.source_of_claim(made, made.spec.volumes[0], claim(), volume(**spec))
    assert (source.kind, source.name, source.claim, source.block) == (kind, "pv1", "shop/c", block)
    assert source.read_only and source.pv is not None
    if kind in ("nfs", "host_path"):
        assert getattr(source.volume, kind) is not None


@pytest.mark.parametrize(
    ("pv", "container", "complaint"),
    [
        (volume(None, local={"path": "/x"}), {}, "it has a nil pv.Spec.ClaimRef"),
        (volume("other", local={"path": "/x"}), {}, "does not point to claim.UID c-1"),
        (volume(iscsi={"iqn": "i", "lun": 1, "targetPortal": "t"}), {}, "kind not supported by this agent"),
        (volume(nfs={"server": "s", "path": "/"}, volumeMode="Block"), {}, "only csi and local volumes can have"),
        (
            volume(local={"path": "/x"}, volumeMode="Block"),
            {"volumeMounts": [{"name": "data"}]},
            "volume data has volumeMode Block, but is specified in volumeMounts",
        ),
        (
            volume(local={"path": "/x"}),
            {"volumeDevices": [{"name": "data"}]},
            "volume data has volumeMode Filesystem, but is specified in volumeDevices",
        ),
    ],
)
def test_unusable_volume_of_a_claim_raises(pv: PersistentVolume, container: Fields, complaint: str) -> None:
    made = pod(CLAIM, {"name": "a", **container})
    with pytest.raises(PykubeletError, match=complaint):
        claims.source_of_claim(made, made.spec.volumes[0], claim(), pv)


@pytest.mark.parametrize(("text", "group"), [("", None), ("0", None), ("x", None), ("-1", None), ("1234", 1234)])
def test_supplemental_group_is_parsed_from_the_annotation(text: str, group: int | None) -> None:
    meta = {"name": "pv1", "annotations": {"pv.beta.kubernetes.io/gid": text} if text else {}}
    assert claims.supplemental_group(from_builtins({"metadata": meta}, PersistentVolume)) == group
