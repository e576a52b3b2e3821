"""Sysctls that pods may set."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.sysctls import (
    SysctlAllowlist,
    SysctlNamespace,
    namespace_of,
    normal_name,
    pod_sysctls,
)
from pykubelet.models.core_v1 import Pod
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_pod

ALLOWLIST = SysctlAllowlist.make((6, 1), ("net.core.*", "kernel.msg*", "fs.mqueue.msg_max"))


def pod_with(name: str, value: str = "1", **spec: object) -> Pod:
    fields: Fields = {"securityContext": {"sysctls": [{"name": name, "value": value}]}, **spec}
    return make_pod(fields)


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("", ""),
        ("kernel", "kernel"),
        ("net.ipv4.conf.eno2/100.rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
        ("net/ipv4/conf/eno2.100/rp_filter", "net.ipv4.conf.eno2/100.rp_filter"),
        ("kernel/shm_rmid_forced", "kernel.shm_rmid_forced"),
    ],
)
def test_normal_name_of_a_sysctl_has_dots(name: str, normal: str) -> None:
    assert normal_name(name) == normal


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("net.core.somaxconn", SysctlNamespace.NET),
        ("fs.mqueue.msg_max", SysctlNamespace.IPC),
        ("kernel.sem", SysctlNamespace.IPC),
        ("kernel.core_pattern", None),
        ("network.x", None),
        ("fs.file-max", None),
    ],
)
def test_namespace_of_a_sysctl_follows_its_name(name: str, namespace: SysctlNamespace | None) -> None:
    assert namespace_of(name) is namespace


@pytest.mark.parametrize(
    "name",
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net/ipv4/tcp_syncookies",
        "net.ipv4.tcp_wmem",
        "net.core.somaxconn",
        "kernel.msgmax",
        "fs.mqueue.msg_max",
    ],
)
def test_allowed_sysctl_is_not_refused(name: str) -> None:
    assert ALLOWLIST.refusal(pod_with(name, "1024\t65535 1")) is None


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        (pod_with("kernel.core_pattern", "|/bin/evil"), 'forbidden sysctl: "kernel.core_pattern" not allowlisted'),
        (pod_with("net/ipv4/ip_forward"), 'forbidden sysctl: "net.ipv4.ip_forward" not allowlisted'),
        (
            pod_with("kernel.shm_rmid_forced", hostIPC=True),
            'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled',
        ),
        (
            pod_with("net.ipv4.tcp_syncookies", hostNetwork=True),
            'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
        (
            pod_with("net.core.somaxconn", hostNetwork=True),
            'forbidden sysctl: "net.core.somaxconn" not allowed with host Net enabled',
        ),
        (
            pod_with("net.ipv4.tcp_syncookies", "1+kernel.core_pattern=|/bin/evil"),
            'forbidden sysctl: the value of "net.ipv4.tcp_syncookies" has a character that no sysctl needs',
        ),
        (pod_with("net.core./../kernel"), 'forbidden sysctl: "net.core./../kernel" is not the name of a sysctl'),
        (pod_with("net.core.x\n"), 'forbidden sysctl: "net.core.x\n" is not the name of a sysctl'),
    ],
)
def test_sysctl_outside_the_allowlist_is_refused(pod: Pod, message: str) -> None:
    assert ALLOWLIST.refusal(pod) == message


def test_names_of_hostile_length_are_refused_in_short() -> None:
    refusal = ALLOWLIST.refusal(pod_with("net.core." + "a" * 100_000))
    assert refusal is not None
    assert len(refusal) < 400


def test_host_ipc_does_not_bear_on_the_network() -> None:
    assert ALLOWLIST.refusal(pod_with("net.core.somaxconn", hostIPC=True)) is None
    assert ALLOWLIST.refusal(pod_with("kernel.msgmax", hostNetwork=True)) is None


def test_old_kernels_have_fewer_safe_ones() -> None:
    assert SysctlAllowlist.make((4, 14)).refusal(pod_with("net.ipv4.tcp_rmem")) is not None
    assert SysctlAllowlist.make((4, 15)).refusal(pod_with("net.ipv4.tcp_rmem")) is None


@pytest.mark.parametrize("pattern", ["kernel.core_pattern", "vm.*", "*", "net.*.x", "Net.core", "net..x", "a" * 300])
def test_bad_patterns_of_the_administrator(pattern: str) -> None:
    with pytest.raises(Invalid, match="allowedUnsafeSysctls"):
        SysctlAllowlist.make((6, 1), (pattern,))


def test_the_runtime_gets_dotted_names() -> None:
    assert pod_sysctls(pod_with("net/core/somaxconn", "9")) == {"net.core.somaxconn": "9"}
    assert pod_sysctls(make_pod()) == {}
    assert ALLOWLIST.refusal(make_pod()) is None
