"""Addresses of the node in pods."""

from pykubelet.kubelet.actuate.node import NodeFacts, NodeOptions


def told(facts: NodeFacts) -> list[tuple[str, ...]]:
    return [facts.ips(), facts.host_ips, facts.resolver().node_ips]


def test_the_addresses_of_a_cloud_come_before_those_found_here() -> None:
    facts = NodeFacts(NodeOptions(name="n", ips=("10.0.0.1",), allocatable={}, resolv_conf=""))
    assert told(facts) == [("10.0.0.1",)] * 3
    facts.learn_ips(("192.0.2.9", "2001:db8::9"))
    assert told(facts) == [("192.0.2.9", "2001:db8::9")] * 3
    facts.learn_ips(())
    assert told(facts) == [("10.0.0.1",)] * 3
