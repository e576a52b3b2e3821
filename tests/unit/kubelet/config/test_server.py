"""Configurations that enable the kubelet API server."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.config.server import server_enabled
from pykubelet.kubelet.config.v1beta1 import KubeletAnonymousAuthentication, KubeletAuthentication


def settings(*, cluster: bool = False, **fields: object) -> Settings:
    config = replace(KubeletConfiguration(), **fields)
    joined = ClusterSettings(Path("/etc/kubeconfig")) if cluster else None
    return Settings("node-1", config, "unix:///run/x.sock", cluster=joined)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (settings(), False),
        (settings(static_pod_path="/etc/manifests", healthz_port=1), False),
        (settings(cluster=True), True),
        (settings(cluster=True, enable_server=False), False),
        (settings(cluster=True, port=0), False),
        (settings(enable_server=True), True),
        (settings(enable_server=True, port=0), False),
        (settings(port=10350), True),
        (settings(read_only_port=10255), True),
        (settings(tls_cert_file="/a"), True),
        (settings(tls_cert_file="/a", enable_server=False), False),
        (settings(authentication=KubeletAuthentication(anonymous=KubeletAnonymousAuthentication(True))), True),
    ],
)
def test_server_is_enabled_only_on_request(given: Settings, wanted: bool) -> None:
    assert server_enabled(given) is wanted
