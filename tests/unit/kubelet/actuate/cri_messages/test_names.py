"""Hostnames and log names."""

import pytest

from pykubelet.kubelet.actuate.cri_messages import names
from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError
from pykubelet.kubelet.types.ids import ContainerID, PodRef, PodUID
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_pod

REF = PodRef("shop", "web", PodUID("u-1"))


@pytest.mark.parametrize(
    ("spec", "hostname", "domain", "kernel"),
    [
        ({}, "web", "", "web"),
        ({"hostname": "db"}, "db", "", "db"),
        ({"subdomain": "set"}, "web", "set.shop.svc.cluster.local", "web"),
        ({"hostname": "db", "subdomain": "set"}, "db", "set.shop.svc.cluster.local", "db"),
        (
            {"subdomain": "set", "setHostnameAsFQDN": True},
            "web",
            "set.shop.svc.cluster.local",
            "web.set.shop.svc.cluster.local",
        ),
        ({"setHostnameAsFQDN": True}, "web", "", "web"),
        ({"hostnameOverride": "a.b.example"}, "a.b.example", "", "a.b.example"),
        ({"hostnameOverride": "x", "hostname": "db", "subdomain": "set"}, "x", "", "x"),
    ],
)
def test_hostname_and_domain_follow_the_fields_of_the_pod(
    spec: Fields, hostname: str, domain: str, kernel: str
) -> None:
    pod = make_pod(spec)
    found = names.pod_hostname(pod, "cluster.local")
    assert found == names.PodHostname(hostname, domain)
    assert names.kernel_hostname(pod, found) == kernel


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a" * 63, "a" * 63),
        ("a" * 64, "a" * 63),
        ("a" * 61 + "-.-" + "b" * 9, "a" * 61),
    ],
)
def test_long_hostnames_are_cut(name: str, expected: str) -> None:
    assert names.pod_hostname(make_pod(name=name), "x").name == expected
    assert names.pod_hostname(make_pod({"hostnameOverride": "o" * 70}), "x").name == "o" * 63


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hostname": "a.b"}, "hostname"),
        ({"hostname": "Upper"}, "hostname"),
        ({"hostname": "a\n127.0.0.1 x"}, "hostname"),
        ({"hostname": "a" * 64}, "hostname"),
        ({"subdomain": "-a"}, "subdomain"),
        ({"hostnameOverride": ""}, "hostnameOverride"),
        ({"hostnameOverride": "a..b"}, "hostnameOverride"),
    ],
)
def test_invalid_hostnames_are_refused(spec: Fields, field: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)pod {field} .* is not a valid DNS name"):
        names.pod_hostname(make_pod(spec), "x")


def test_an_fqdn_must_fit_the_kernel() -> None:
    # web + dot + subdomain + .shop.svc. + domain
    pod = make_pod({"subdomain": "s" * 42, "setHostnameAsFQDN": True})
    assert len(names.kernel_hostname(pod, names.pod_hostname(pod, "local.io"))) == 64
    with pytest.raises(ConfigError, match=r"is too long \(64 characters is the max, 65 characters requested\)"):
        names.kernel_hostname(pod, names.pod_hostname(pod, "local.ioo"))


def test_log_directory_names_namespace_pod_and_uid() -> None:
    assert names.pod_log_dir("/var/log/pods", REF) == "/var/log/pods/shop_web_u-1"
    assert names.container_log_path("app", 4) == "app/4.log"
    assert names.uid_of_log_dir("shop_web_u-1") == "u-1"
    assert names.uid_of_log_dir("u-1") == "u-1"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        ([], 0),
        (["0.log"], 1),
        (["0.log", "10.log", "9.log"], 11),
        (["2.log.20260101-000000.gz", "1.log"], 3),
        (["notes.txt", "x1.log", "1.logs", "1.log2"], 0),
        (["9" * 5000 + ".log", "5.log"], 6),
        (["٣.log"], 0),
        (["0.log", "1.log", "1.log.20260101-000000", "1.unstarted"], 1),
        (["0.unstarted"], 0),
    ],
)
def test_restart_count_from_logs(files: list[str], count: int) -> None:
    assert names.restart_count_from_logs(files) == count


def test_log_link_name_is_cut_and_contains_the_container_id() -> None:
    container_id = ContainerID("0123456789abcdef")
    name = names.log_link_name(REF, "app", container_id)
    assert name == "web_shop_app-0123456789abcdef.log"
    assert names.container_id_of_log_link(name) == container_id
    long = names.log_link_name(PodRef("n" * 63, "p" * 253, PodUID("u")), "c" * 63, container_id)
    assert len(long) == 255
    assert long.endswith(".log")
    assert names.container_id_of_log_link("web_shop_app-0123.log") is None
    assert names.container_id_of_log_link("web_shop_app-0123456789") is None
