"""Sources of volumes in a pod's own spec."""

import pytest

from pykubelet.kubelet.actuate.volumes.source_lookup import SourceLookup
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod


@pytest.mark.parametrize(
    ("field", "read_only"), [({}, False), ({"readOnly": False}, False), ({"readOnly": True}, True)]
)
async def test_inline_csi_volume_is_read_only_as_its_spec_says(field: dict[str, bool], read_only: bool) -> None:
    spec = {
        "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "csi": {"driver": "d", **field}}],
    }
    pod = from_builtins({"metadata": {"name": "p", "namespace": "n"}, "spec": spec}, Pod)
    found, problems = await SourceLookup(None).find(pod, ())
    assert problems == {} and found["v"].read_only is read_only
