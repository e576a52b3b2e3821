"""resolv.conf of pods: policies, merges, limits."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.actuate.cri_messages import dns
from pykubelet.kubelet.actuate.cri_messages.config_types import Resolver
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_pod

NODE = Resolver(
    nameservers=("192.0.2.1",),
    searches=("corp.example",),
    options=("attempts:2",),
    cluster_dns=("10.96.0.10",),
    cluster_domain="cluster.local",
    node_ips=("192.0.2.7", "2001:db8::7"),
)
CLUSTER_SEARCHES = ("shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "corp.example")
FROM_CLUSTER = dns.PodDns(("10.96.0.10",), CLUSTER_SEARCHES, ("ndots:5",))
FROM_NODE = dns.PodDns(("192.0.2.1",), ("corp.example",), ("attempts:2",))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"dnsPolicy": "ClusterFirst"}, FROM_CLUSTER),
        ({}, FROM_CLUSTER),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, FROM_NODE),
        ({"hostNetwork": True}, FROM_NODE),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, FROM_CLUSTER),
        ({"dnsPolicy": "Default"}, FROM_NODE),
        ({"dnsPolicy": "None"}, dns.PodDns()),
        (
            {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["198.51.100.1"], "searches": ["a.b"]}},
            dns.PodDns(("198.51.100.1",), ("a.b",)),
        ),
        (
            {
                "dnsPolicy": "Default",
                "dnsConfig": {
                    "nameservers": ["192.0.2.1", "192.0.2.2"],
                    "searches": ["corp.example", "b.example"],
                    "options": [{"name": "attempts", "value": "3"}, {"name": "edns0"}],
                },
            },
            dns.PodDns(("192.0.2.1", "192.0.2.2"), ("corp.example", "b.example"), ("attempts:3", "edns0")),
        ),
        (
            {"dnsConfig": {"options": [{"name": "ndots", "value": "2"}]}},
            dns.PodDns(("10.96.0.10",), CLUSTER_SEARCHES, ("ndots:2",)),
        ),
    ],
)
def test_dns_of_a_pod_follows_its_policy(spec: Fields, expected: dns.PodDns) -> None:
    assert dns.pod_dns(make_pod(spec), NODE) == expected


def test_without_a_cluster_domain_only_the_nodes_searches_count() -> None:
    found = dns.pod_dns(make_pod(), Resolver(searches=("a",), cluster_dns=("10.0.0.1",)))
    assert found == dns.PodDns(("10.0.0.1",), ("a",), ("ndots:5",))


def test_without_cluster_dns_the_nodes_resolver_stands_in_and_the_pod_is_informed() -> None:
    found = dns.pod_dns(make_pod(), Resolver(nameservers=("192.0.2.1",), cluster_domain="cluster.local"))
    assert found.servers == ("192.0.2.1",)
    assert found.searches == ()
    assert found.warnings == (
        dns.DnsWarning(
            "MissingClusterDNS",
            'pod: "web_shop(u-1)". kubelet does not have ClusterDNS IP configured and cannot create Pod using '
            '"ClusterFirst" policy. Falling back to "Default" policy.',
        ),
    )


@pytest.mark.parametrize(
    ("node_ips", "servers"),
    [((), ("127.0.0.1",)), (("192.0.2.7",), ("127.0.0.1",)), (("2001:db8::7", "192.0.2.7"), ("::1", "127.0.0.1"))],
)
def test_an_empty_resolv_conf_setting_turns_lookups_off(node_ips: tuple[str, ...], servers: tuple[str, ...]) -> None:
    resolver = Resolver(has_file=False, node_ips=node_ips)
    assert dns.pod_dns(make_pod({"dnsPolicy": "Default"}), resolver) == dns.PodDns(servers, (".",))


def test_three_nameservers_at_most() -> None:
    servers = tuple(f"192.0.2.{i}" for i in range(5))
    found = dns.pod_dns(make_pod({"dnsPolicy": "Default"}), Resolver(nameservers=servers))
    assert found.servers == servers[:3]
    assert found.warnings == (
        dns.DnsWarning(
            "DNSConfigForming",
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "
            "192.0.2.0 192.0.2.1 192.0.2.2",
        ),
    )


SEARCH_LISTS = st.lists(st.integers(1, 300).map(lambda n: "x" * n), max_size=45)


@settings(deadline=None)
@given(SEARCH_LISTS)
def test_searches_stay_within_the_limits(searches: list[str]) -> None:
    found = dns.pod_dns(make_pod({"dnsPolicy": "Default"}), Resolver(searches=tuple(searches)))
    assert len(found.searches) <= 32
    assert all(len(name) <= 253 for name in found.searches)
    assert len(" ".join(found.searches)) <= 2048
    fitting = [name for name in searches[:32] if len(name) <= 253]
    assert list(found.searches) == fitting[: len(found.searches)]
    if len(found.searches) < len(fitting):  # nothing is left out that would fit
        assert len(" ".join(fitting[: len(found.searches) + 1])) > 2048
    assert bool(found.warnings) == (list(found.searches) != searches)


@pytest.mark.parametrize(
    ("text", "servers", "searches", "options"),
    [
        ("", (), (), ()),
        ("nameserver 192.0.2.1\nnameserver\t192.0.2.2 # second\n", ("192.0.2.1", "192.0.2.2"), (), ()),
        ("# nameserver 192.0.2.1\n;nameserver 192.0.2.2\nnameserver\n", (), (), ()),
        ("search a b\nsearch c. . d\n", (), ("c", "d"), ()),
        ("search .\n", (), (), ()),
        ("options ndots:1 edns0\noptions ndots:3 rotate", (), (), ("ndots:3", "edns0", "rotate")),
        ("  nameserver fe80::1%eth0  \r\ndomain old.example\n", ("fe80::1%eth0",), (), ()),
    ],
)
def test_resolv_conf_is_parsed_as_by_the_resolver(
    text: str, servers: tuple[str, ...], searches: tuple[str, ...], options: tuple[str, ...]
) -> None:
    assert dns.parse_resolv_conf(text) == Resolver(servers, searches, options)


@pytest.mark.parametrize(
    ("searches", "cluster_domain", "expected"),
    [
        (("a",) * 32, "", None),
        (("a",) * 33, "", "more than 32 domains"),
        (("a",) * 30, "cluster.local", "more than 29 domains"),
        (("a" * 254,), "", "more than allowed 253 chars"),
        (("a" * 250,) * 9, "", "more than allowed 2048 chars"),
    ],
)
def test_resolv_conf_beyond_the_limits_is_reported(
    searches: tuple[str, ...], cluster_domain: str, expected: str | None
) -> None:
    fault = dns.resolv_conf_fault(Resolver(searches=searches, cluster_domain=cluster_domain), "/etc/resolv.conf")
    assert fault is None if expected is None else fault is not None and expected in fault
