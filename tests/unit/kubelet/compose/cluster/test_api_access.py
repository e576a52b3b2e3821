"""Access to the API server: the clients, and the node's certificates if the cluster signs any."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.compose.cluster.api_access import ApiAccess
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.desired.objects import LocalObjects
from pykubelet.kubelet.report.metrics import KubeletMetrics
from pykubelet.models.core_v1 import NodeAddress
from pykubelet.testing.clock import VirtualClock


def access(home: Path, *, signed: bool) -> ApiAccess:
    kubeconfig, clock = home / "kubeconfig", VirtualClock()
    config = KubeletConfiguration(rotate_certificates=False, server_tls_bootstrap=signed)
    settings = Settings("n", config, "unix:///none", cluster=ClusterSettings(kubeconfig, cert_dir=home / "pki"))
    metrics = KubeletMetrics(node_name="n", clock=clock)
    return ApiAccess(settings, local=LocalObjects(), touched=Mock(), metrics=metrics, clock=clock)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    lists = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    text = {"apiVersion": "v1", "kind": "Config", "current-context": "x", **lists}
    (tmp_path / "kubeconfig").write_text(json.dumps(text))
    return tmp_path


@pytest.mark.parametrize("signed", [True, False])
async def test_addresses_reach_the_certificates_if_there_are_any(home: Path, signed: bool) -> None:
    made = access(home, signed=signed)
    assert (made.certificates is not None) is signed
    made.addresses_seen((NodeAddress(type="InternalIP", address="10.0.0.1"),))
    assert made.serving() is None, "the cluster has not signed one yet"
    await made.close()


async def test_heartbeats_have_connections_of_their_own(home: Path) -> None:
    made = access(home, signed=False)
    assert made.heart is not made.client
    await made.close()


async def test_bad_kubeconfig_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("{")
    with pytest.raises(Invalid):
        access(tmp_path, signed=False)
