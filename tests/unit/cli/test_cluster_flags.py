"""Flags of node mode."""

from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.cluster_flags import take_cluster_settings
from pykubelet.models.core_v1 import Taint

NOTHING: dict[str, Any] = {
    "kubeconfig": None,
    "bootstrap_kubeconfig": None,
    "cert_dir": None,
    "node_labels": (),
    "register_with_taints": "",
    "provider_id": "",
    "cloud_provider": "",
}
ROOT = Path("/root-dir")


def test_no_kubeconfig_gives_no_cluster_settings() -> None:
    flags = {**NOTHING, "other": 1}
    assert take_cluster_settings(flags, ROOT) == (None, {})
    assert flags == {"other": 1}


def test_cluster_flags_become_settings_and_overrides() -> None:
    given = {
        "kubeconfig": Path("/k"),
        "node_labels": ("a=b,c=", "d, e=f"),
        "register_with_taints": "k=v:NoSchedule,only:NoExecute",
        "provider_id": "x",
        "cloud_provider": "external",
    }
    cluster, overrides = take_cluster_settings({**NOTHING, **given}, ROOT)
    assert cluster is not None
    assert (cluster.kubeconfig, cluster.cert_dir, cluster.provider_id) == (Path("/k"), ROOT / "pki", "x")
    assert cluster.external_cloud
    assert cluster.node_labels == {"a": "b", "c": "", "d": "", "e": "f"}
    taints = (Taint(key="k", value="v", effect="NoSchedule"), Taint(key="only", effect="NoExecute"))
    assert overrides == {"register_with_taints": taints}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"node_labels": ("=a",)}, "KEY=VALUE"),
        ({"register_with_taints": "a=b"}, "EFFECT"),
        ({"register_with_taints": "a:Never"}, "EFFECT"),
        ({"cloud_provider": "aws"}, "external"),
        ({"bootstrap_kubeconfig": Path("/b")}, "requires --kubeconfig"),
    ],
)
def test_invalid_cluster_flag_is_named(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        take_cluster_settings({**NOTHING, **flags}, ROOT)
