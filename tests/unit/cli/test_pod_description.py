"""The description of a pod names the source of each volume by its field."""

import pytest

from pykubelet.cli.output.pod_description import _volume_source
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Volume


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ({"emptyDir": {"medium": "Memory"}}, "emptyDir Memory"),
        ({"hostPath": {"path": "/data", "type": "Directory"}}, "hostPath /data Directory"),
        ({"configMap": {"name": "c"}}, "configMap c"),
        ({"secret": {"secretName": "s"}}, "secret s"),
        ({"downwardAPI": {}}, "downwardAPI"),
        ({"projected": {}}, "projected"),
        ({"image": {"reference": "app:1"}}, "image app:1"),
        ({"nfs": {"server": "nfs.example", "path": "/x"}}, "nfs nfs.example:/x"),
        ({"csi": {"driver": "d.csi"}}, "csi d.csi"),
        ({"persistentVolumeClaim": {"claimName": "c"}}, "persistentVolumeClaim c"),
        ({"ephemeral": {}}, "ephemeral"),
        ({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}, "iscsi"),
        ({}, "emptyDir on disk"),
    ],
)
def test_source_of_a_volume_has_the_name_of_its_field(source: dict[str, object], shown: str) -> None:
    assert _volume_source(from_builtins({"name": "v", **source}, Volume)) == shown
