"""What would end the agent later is found before anything changes."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.compose.reload.check_settings import check_settings, check_start
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.config.v1beta1 import KubeletAuthentication, KubeletAuthorization, KubeletX509Authentication
from pykubelet.testing.certificates import Authority

_ALLOW: Any = {"authorization": KubeletAuthorization(mode="AlwaysAllow")}


def settings(*, cluster: bool = False, **fields: Any) -> Settings:
    config = replace(KubeletConfiguration(), **fields)
    return Settings("n", config, "unix:///none", cluster=ClusterSettings(Path("/none")) if cluster else None)


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"read_only_port": 10255}, "readOnlyPort: enables the kubelet API server, but authorization.mode Webhook"),
        ({"port": 10350}, "port: enables the kubelet API server"),
        ({"enable_server": True, "read_only_port": 10255}, "enableServer: enables the kubelet API server"),
        ({**_ALLOW, "tls_min_version": "TLS9"}, "tlsMinVersion: unknown version 'TLS9'"),
        ({**_ALLOW, "tls_cipher_suites": ("X",)}, "tlsCipherSuites: unknown or insecure suites: X"),
        ({"eviction_hard": {"memory.available": "abc"}}, "evictionHard[memory.available]: 'abc' is not a quantity"),
        ({"eviction_hard": {"memory": "1Gi"}}, "evictionHard: unknown eviction signal 'memory'"),
        (
            {"eviction_soft_grace_period": {"memory.available": "soon"}},
            "evictionSoftGracePeriod[memory.available]: 'soon' is not a duration",
        ),
        ({"cgroup_root": "/../x"}, "invalid cgroupRoot '/../x'"),
        ({"allowed_unsafe_sysctls": ("UPPER CASE",)}, "allowedUnsafeSysctls: 'UPPER CASE' is not the name of a sysctl"),
    ],
)
def test_field_that_a_component_would_refuse_is_named(fields: dict[str, Any], wanted: str) -> None:
    with pytest.raises(Invalid) as caught:
        check_settings(settings(**fields))
    assert str(caught.value).startswith(wanted)


def test_usable_settings_pass() -> None:
    check_start(settings())
    check_start(settings(**_ALLOW, read_only_port=10255))
    check_start(settings(cluster=True, read_only_port=10255))
    check_start(settings(enable_server=False, read_only_port=10255, tls_cert_file="/none"))


def test_files_of_the_server_are_read_at_the_start_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("node", ["127.0.0.1"])
    pair = {"tls_cert_file": str(issued.certificate), "tls_private_key_file": str(issued.key)}
    trust = KubeletAuthentication(x509=KubeletX509Authentication(client_ca_file=str(issued.certificate)))
    check_start(settings(cluster=True, **pair, authentication=trust))
    issued.certificate.write_text("half")
    for fields, wanted in (
        (pair, f"tlsCertFile: the certificate {issued.certificate} and the key {issued.key} cannot be used"),
        ({"authentication": trust}, f"authentication.x509.clientCAFile: {issued.certificate} cannot be used"),
    ):
        found = settings(cluster=True, **fields)
        check_settings(found)
        with pytest.raises(Invalid) as caught:
            check_start(found)
        assert str(caught.value).startswith(wanted)
