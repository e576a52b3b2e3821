"""Addresses of the node in pods, and the check of its resolver configuration."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.host import NodeFacts, NodeOptions
from pykubelet.testing.limits import no_descriptors


def reported(facts: NodeFacts) -> list[tuple[str, ...]]:
    return [facts.ips(), facts.host_ips, facts.resolver().node_ips]


def test_the_addresses_of_a_cloud_come_before_those_found_here() -> None:
    facts = NodeFacts(NodeOptions(name="n", ips=("10.0.0.1",), allocatable={}, resolv_conf=""))
    assert reported(facts) == [("10.0.0.1",)] * 3
    facts.learn_ips(("192.0.2.9", "2001:db8::9"))
    assert reported(facts) == [("192.0.2.9", "2001:db8::9")] * 3
    facts.learn_ips(())
    assert reported(facts) == [("10.0.0.1",)] * 3


def test_fault_of_resolv_conf_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    facts = NodeFacts(
        NodeOptions(name="n", ips=(), allocatable={}, resolv_conf=str(file), cluster_domain="cluster.local")
    )
    assert facts.resolv_conf.fault() == f"open {file}: no such file or directory"
    file.write_text("search " + " ".join(f"d{number}.example" for number in range(30)))
    assert facts.resolv_conf.fault() == (
        f"Resolv.conf file '{file}' contains search line consisting of more than 29 domains!"
    )
    file.write_text("search a.example\n")
    assert facts.resolv_conf.fault() is None


def test_resolv_conf_that_cannot_be_read_for_the_moment_does_not_count_as_empty(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text("nameserver 10.0.0.10\n")
    facts = NodeFacts(NodeOptions(name="n", ips=(), allocatable={}, resolv_conf=str(file)))
    with no_descriptors(), pytest.raises(Transient, match=r"resolv\.conf cannot be read: Too many open files"):
        facts.resolver()
    assert facts.resolver().nameservers == ("10.0.0.10",)
    file.unlink()
    assert facts.resolver().nameservers == ()


def test_resolv_conf_that_is_off_has_no_fault() -> None:
    assert NodeFacts(NodeOptions(name="n", ips=(), allocatable={}, resolv_conf="")).resolv_conf.fault() is None
