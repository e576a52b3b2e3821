"""A fault that would end the agent later is found before anything changes."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.compose.live_settings.check_settings import (
    check_ports,
    check_reload,
    check_settings,
    check_start,
)
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.kubelet.config.v1beta1 import KubeletAuthentication, KubeletAuthorization, KubeletX509Authentication
from pykubelet.linux import system
from pykubelet.models.core_v1 import Taint
from pykubelet.testing.certificates import Authority
from pykubelet.testing.free_ports import free_port

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
        ({**_ALLOW, "healthz_port": 10250, "enable_server": True}, "port: 10250 is the port of healthzPort, too"),
        (
            {**_ALLOW, "address": "10.0.0.1", "read_only_port": 10250},
            "readOnlyPort: 10250 is the port of port, too; choose another port",
        ),
        (
            {"image_service_endpoint": "tcp://1.2.3.4:5"},
            "imageServiceEndpoint: container runtime endpoint 'tcp:",
        ),
        (
            {"container_runtime_endpoint": "run/x"},
            "containerRuntimeEndpoint: container runtime endpoint 'run/x'",
        ),
        (
            {"register_with_taints": (Taint(key="a b", effect="NoSchedule"),)},
            "registerWithTaints[0].key: 'a b' is no",
        ),
        (
            {"register_with_taints": (Taint(key="a", value="b c", effect="NoSchedule"),)},
            "registerWithTaints[0].value: 'b c' is no label value",
        ),
        (
            {"register_with_taints": (Taint(key="a"),)},
            "registerWithTaints[0].effect: '' is not known",
        ),
        (
            {"register_with_taints": (Taint(key="a", effect="NoExecute", time_added=datetime.now(UTC)),)},
            "registerWithTaints[0].timeAdded: must not be set",
        ),
        (
            {"register_with_taints": (*[Taint(key="a", effect="NoExecute", value=value) for value in "bc"],)},
            "registerWithTaints[1]: key 'a' with effect 'NoExecute' is there already",
        ),
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


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"system_reserved": {"memory": "1000Ti"}}, "kubeReserved, systemReserved, evictionHard: "),
        *(
            (
                {
                    "kube_reserved": {"cpu": "100m"},
                    "kube_reserved_cgroup": path,
                    "enforce_node_allocatable": ("pods", "kube-reserved"),
                },
                f"kubeReservedCgroup: {message}",
            )
            for path, message in (
                ("/pykubelet-test-none", "'/pykubelet-test-none' cgroup does not exist with all controllers"),
                ("../../none", "'/../../none' is not the path of a cgroup below the root"),
                ("/", "the root cgroup cannot be limited"),
            )
        ),
    ],
)
def test_machine_that_lacks_what_is_required_is_noticed_at_the_start_and_when_a_field_changes(
    fields: dict[str, Any], wanted: str
) -> None:
    found = settings(**fields)
    check_settings(found)
    with pytest.raises(Invalid) as caught:
        check_start(found)
    assert str(caught.value).startswith(wanted)
    with pytest.raises(Invalid) as caught:
        check_reload(settings(healthz_port=0), replaced(found, healthz_port=0))
    assert str(caught.value).startswith(wanted)
    check_reload(found, replaced(found, healthz_port=0, max_pods=3))


def replaced(found: Settings, **fields: Any) -> Settings:
    return Settings(found.node_name, replace(found.config, **fields), found.runtime_endpoint, cluster=found.cluster)


def test_swap_is_noticed_before_anything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = system.meminfo()
    monkeypatch.setattr(system, "meminfo", lambda: type(facts)(**{**_fields(facts), "swap_total": 1}))
    check_start(settings())
    with pytest.raises(Invalid, match="failSwapOn: swap is on"):
        check_start(settings(cluster=True))


def _fields(facts: Any) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in type(facts).__struct_fields__}


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_servers_may_have_the_same_port_on_different_addresses_and_none_twice() -> None:
    check_settings(settings(address="10.0.0.1", healthz_port=10250, enable_server=True, **_ALLOW))
    check_settings(settings(healthz_port=0, enable_server=True, read_only_port=0, **_ALLOW))
    check_settings(settings(healthz_port=10250, enable_server=False))


def test_port_that_another_program_uses_is_named(taken: int) -> None:
    for fields, field in (
        ({"healthz_port": taken, "port": 0, **_ALLOW}, "healthzPort"),
        ({"healthz_port": 0, "port": taken, **_ALLOW}, "port"),
        ({"healthz_port": 0, "port": 0, "read_only_port": taken, **_ALLOW}, ""),
        ({"healthz_port": 0, "port": free_port(), "read_only_port": taken, **_ALLOW}, "readOnlyPort"),
    ):
        found = settings(address="127.0.0.1", **fields)
        if not field:
            check_ports(found)  # the servers are off
            continue
        with pytest.raises(Invalid) as caught:
            check_ports(found)
        assert str(caught.value).startswith(f"{field}: cannot listen on 127.0.0.1:{taken}")
        with pytest.raises(Invalid):
            check_reload(settings(healthz_port=0), found)
        check_reload(found, found)  # it is the agent itself that listens


def test_files_that_a_reload_names_are_read_and_others_are_not(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("node", ["127.0.0.1"])
    pair = {"tls_cert_file": str(issued.certificate), "tls_private_key_file": str(issued.key)}
    started = settings(cluster=True, healthz_port=0, port=free_port(), **pair)
    issued.certificate.write_text("half")
    check_reload(started, replaced(started, max_pods=3))
    with pytest.raises(Invalid, match="tlsCertFile: the certificate"):
        check_reload(started, replaced(started, tls_cert_file="/none"))
    missing = KubeletAuthentication(x509=KubeletX509Authentication(client_ca_file="/none"))
    with pytest.raises(Invalid, match=r"authentication.x509.clientCAFile: /none"):
        check_reload(started, replaced(started, tls_cert_file="", tls_private_key_file="", authentication=missing))
