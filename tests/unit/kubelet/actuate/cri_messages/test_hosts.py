"""The content of /etc/hosts."""

import pytest

from pykubelet.kubelet.actuate.actuate_types import HostMount
from pykubelet.kubelet.actuate.cri_messages import hosts
from pykubelet.kubelet.actuate.cri_messages.names import PodHostname
from pykubelet.models.core_v1 import HostAlias
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_container, make_pod

FIXED = b"""\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIASES = (HostAlias(ip="192.0.2.9", hostnames=("db", "db.example")), HostAlias(ip="::9", hostnames=("six",)))
ALIAS_LINES = b"\n# Entries added by HostAliases.\n192.0.2.9\tdb\tdb.example\n::9\tsix\n"


def test_hosts_file_has_a_short_name_for_each_address() -> None:
    assert hosts.managed_hosts(("10.0.0.5", "fd00::5"), PodHostname("web"), ()) == (
        FIXED + b"10.0.0.5\tweb\nfd00::5\tweb\n"
    )


def test_hosts_file_has_domain_and_aliases() -> None:
    hostname = PodHostname("web", "set.shop.svc.cluster.local")
    assert hosts.managed_hosts(("10.0.0.5",), hostname, ALIASES) == (
        FIXED + b"10.0.0.5\tweb.set.shop.svc.cluster.local\tweb\n" + ALIAS_LINES
    )


def test_host_network_takes_the_nodes_file() -> None:
    node = b"127.0.0.1 localhost\n\xff\n"
    header = b"# Kubernetes-managed hosts file (host network).\n"
    assert hosts.node_hosts(node, ()) == header + node
    assert hosts.node_hosts(node, ALIASES) == header + node + ALIAS_LINES


@pytest.mark.parametrize(
    ("spec", "mounts", "pod_ips", "wanted"),
    [
        ({}, [], ("10.0.0.5",), True),
        ({}, [], (), False),
        ({"hostNetwork": True}, [], (), True),
        ({}, [{"name": "v", "mountPath": "/etc/hosts"}], ("10.0.0.5",), False),
        ({}, [{"name": "v", "mountPath": "/etc/hosts.d"}], ("10.0.0.5",), True),
    ],
)
def test_hosts_file_is_wanted_unless_the_container_mounts_one(
    spec: Fields, mounts: list[Fields], pod_ips: tuple[str, ...], wanted: bool
) -> None:
    assert hosts.wants_hosts(make_pod(spec), make_container(volumeMounts=mounts), pod_ips) is wanted


def test_hosts_file_is_mounted_on_etc_hosts() -> None:
    assert hosts.hosts_mount("/pods/u/etc-hosts") == HostMount(
        "/etc/hosts", "/pods/u/etc-hosts", selinux_relabel=True, name="k8s-managed-etc-hosts"
    )
