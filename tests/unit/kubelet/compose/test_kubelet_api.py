import dataclasses
import logging
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.compose import kubelet_api
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
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
    assert kubelet_api.server_wanted(given) is wanted


def test_shown_configuration_is_effective_and_without_secrets() -> None:
    shown = kubelet_api.configuration(settings(static_pod_url_header={"Authorization": ("secret",)}, port=10350))
    assert shown["kind"] == "KubeletConfiguration"
    assert shown["port"] == 10350
    assert shown["enableServer"] is True
    assert shown["containerRuntimeEndpoint"] == "unix:///run/x.sock"
    assert shown["authentication"] == {
        "x509": {"clientCAFile": ""},
        "webhook": {"enabled": True, "cacheTTL": "2m"},
        "anonymous": {"enabled": False},
    }
    assert "secret" not in str(shown)


def test_closed_log_stream_is_a_fault() -> None:
    assert kubelet_api._log_fault() is None
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        assert kubelet_api._log_fault() is None
        stream.close()
        assert kubelet_api._log_fault() == "the log's stream is closed"
    finally:
        logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ({}, ("/kubepods", "/kubepods/burstable", "/kubepods/besteffort")),
        ({"cgroup_root": "/a"}, ("/a/kubepods", "/a/kubepods/burstable", "/a/kubepods/besteffort")),
        (
            {"cgroup_driver": "systemd"},
            (
                "/kubepods.slice",
                "/kubepods.slice/kubepods-burstable.slice",
                "/kubepods.slice/kubepods-besteffort.slice",
            ),
        ),
    ],
)
def test_usage_is_read_where_the_pods_cgroups_are(fields: dict[str, str], groups: tuple[str, ...]) -> None:
    given = settings()
    config = replace(given.config, **fields)
    assert kubelet_api._stats_config(dataclasses.replace(given, config=config)).groups == groups
