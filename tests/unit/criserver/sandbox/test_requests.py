"""Interpretation of sandbox requests."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.netns import NamespaceKind
from pykubelet.criserver.sandbox.plan.requests import (
    attach_request,
    name_of,
    namespaces,
    needs_infra,
    resolv_conf,
    sysctls,
)
from pykubelet.criserver.types import SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

OWN = [NamespaceKind.NETWORK, NamespaceKind.UTS, NamespaceKind.IPC]


def _config(**changes: object) -> pb.PodSandboxConfig:
    metadata = pb.PodSandboxMetadata(name="web", namespace="default", uid="u1", attempt=2)
    return pb.PodSandboxConfig(metadata=metadata, hostname="web", **changes)  # type: ignore[arg-type]  # protobuf checks


def test_name_needs_all_metadata() -> None:
    assert name_of(_config()) == "web_default_u1_2"
    with pytest.raises(Invalid, match=r"metadata\.uid"):
        name_of(pb.PodSandboxConfig(metadata=pb.PodSandboxMetadata(name="a", namespace="b")))


def test_namespaces_of_an_ordinary_pod() -> None:
    spec = namespaces(_config())
    assert set(spec.kinds) == set(OWN)
    assert spec.hostname == "web"
    assert "net.ipv4.ping_group_range" in spec.sysctls
    assert needs_infra(_config())


def test_namespaces_of_the_node_are_not_created() -> None:
    config = _config()
    options = config.linux.security_context.namespace_options
    options.network, options.ipc, options.pid = pb.NODE, pb.NODE, pb.CONTAINER
    spec = namespaces(config)
    assert (spec.kinds, dict(spec.sysctls)) == ((), {})
    assert not needs_infra(config)


def test_long_host_name_is_rejected() -> None:
    with pytest.raises(Invalid, match="64 bytes"):
        namespaces(pb.PodSandboxConfig(hostname="x" * 65))
    assert namespaces(pb.PodSandboxConfig(hostname="x" * 64)).hostname == "x" * 64


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel.core_pattern", "|/evil"),
        ("kernel.shmmax", "1+net.x=2"),
        ("kernel.shmmax", "1\n"),
        ("vm.swappiness", "1"),
        ("net/../kernel/core_pattern", "x"),
        ("kernel.shm_rmid_forced;", "1"),
    ],
)
def test_forbidden_sysctls_are_invalid(name: str, value: str) -> None:
    with pytest.raises(Invalid):
        sysctls({name: value}, OWN)


def test_sysctls_need_a_namespace_of_the_pod() -> None:
    assert sysctls({"net.core.somaxconn": "9"}, OWN)["net.core.somaxconn"] == "9"
    assert sysctls({"kernel.shmmax": "9"}, [NamespaceKind.IPC]) == {"kernel.shmmax": "9"}
    with pytest.raises(Invalid, match="namespace"):
        sysctls({"net.core.somaxconn": "9"}, [NamespaceKind.IPC])
    with pytest.raises(Invalid, match="namespace"):
        sysctls({"kernel.shmmax": "9"}, [NamespaceKind.NETWORK])


def test_attach_request_has_all_fields() -> None:
    config = _config(
        port_mappings=[
            pb.PortMapping(protocol=pb.UDP, container_port=53, host_port=5353, host_ip="127.0.0.1"),
            pb.PortMapping(container_port=80),
        ],
        annotations={"kubernetes.io/ingress-bandwidth": "10M"},
    )
    request = attach_request(SandboxID("s1"), config, "/ns")
    assert [(port.host_port, port.protocol) for port in request.ports] == [(5353, "udp")]
    assert (request.ingress_rate, request.egress_rate) == (10_000_000, 0)


@pytest.mark.parametrize(("rate", "bits"), [("1k", 10**3), ("1P", 10**15)])
def test_bandwidth_rates_at_the_ends_of_the_range_are_accepted(rate: str, bits: int) -> None:
    config = _config(annotations={"kubernetes.io/egress-bandwidth": rate})
    assert attach_request(SandboxID("s"), config, "/ns").egress_rate == bits


@pytest.mark.parametrize("rate", ["fast", "1", "999", "1000000000000001", "10E"])
def test_impossible_bandwidth_rates_are_invalid(rate: str) -> None:
    with pytest.raises(Invalid, match="egress-bandwidth"):
        attach_request(SandboxID("s"), _config(annotations={"kubernetes.io/egress-bandwidth": rate}), "/ns")


def test_addresses_are_requested_by_annotation() -> None:
    annotations = {"cni.pykubelet/ips": "10.0.0.5, fd00::5/64", "cni.pykubelet/mac": "02:00:00:00:00:Aa"}
    request = attach_request(SandboxID("s"), _config(annotations=annotations), "/ns")
    assert (request.ips, request.mac) == (("10.0.0.5", "fd00::5/64"), "02:00:00:00:00:Aa")


@pytest.mark.parametrize("annotation", [{"cni.pykubelet/ips": "10.0.0.500"}, {"cni.pykubelet/mac": "02:00"}])
def test_impossible_addresses_are_invalid(annotation: dict[str, str]) -> None:
    with pytest.raises(Invalid, match="address"):
        attach_request(SandboxID("s"), _config(annotations=annotation), "/ns")


def test_resolv_conf_has_dns_of_the_request_or_of_the_node() -> None:
    dns = pb.DNSConfig(servers=["10.0.0.10", "1.1.1.1"], searches=["a.b", "c"], options=["ndots:5"])
    assert resolv_conf(dns, "node") == "search a.b c\nnameserver 10.0.0.10\nnameserver 1.1.1.1\noptions ndots:5\n"
    assert resolv_conf(pb.DNSConfig(), "node") == "node"
    with pytest.raises(Invalid):
        resolv_conf(pb.DNSConfig(servers=["1.1.1.1\nnameserver 6.6.6.6"]), "")


def test_attach_request_unknown_protocol_is_invalid() -> None:
    config = pb.PodSandboxConfig()
    port = config.port_mappings.add(container_port=80, host_port=8080)
    port.protocol = 7  # type: ignore[assignment]  # as a newer client may send it
    with pytest.raises(Invalid, match="port mapping 80: unknown protocol 7"):
        attach_request(SandboxID("s1"), config, "/ns")


def test_namespaces_of_a_pod_with_a_user_namespace() -> None:
    config = _config()
    options = config.linux.security_context.namespace_options.userns_options
    options.mode = pb.POD
    for ids in (options.uids, options.gids):
        ids.add(container_id=0, host_id=65536, length=65536)
    spec = namespaces(config)
    assert set(spec.kinds) == {*OWN, NamespaceKind.USER}
    assert spec.ids is not None and spec.ids.gid == 65536
    assert spec.sysctls["net.ipv4.ping_group_range"] == "65536 131071"


def test_namespaces_unknown_user_namespace_mode_is_invalid() -> None:
    config = pb.PodSandboxConfig()
    config.linux.security_context.namespace_options.userns_options.mode = 9  # type: ignore[assignment]
    with pytest.raises(Invalid, match="not 9"):
        namespaces(config)
