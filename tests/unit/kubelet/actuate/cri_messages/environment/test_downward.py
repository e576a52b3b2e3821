"""Values of the downward API."""

import pytest

from pykubelet.kubelet.actuate.cri_messages.config_types import ConfigError, ConfigReason, DownwardContext
from pykubelet.kubelet.actuate.cri_messages.environment import downward
from pykubelet.models.core_v1 import Container, ObjectFieldSelector, ResourceFieldSelector
from tests.unit.kubelet.actuate.cri_messages.build import Fields, make_container, make_pod

CONTEXT = DownwardContext(
    node_name="node-1",
    host_ips=("192.0.2.7", "2001:db8::7"),
    pod_ips=("fd00::5", "10.0.0.5", "10.0.0.6"),
    allocatable={"cpu": "1900m", "memory": "4Gi", "ephemeral-storage": "10G"},
)
POD = make_pod(
    {"serviceAccountName": "robot"},
    labels={"app": "x", "a.example/tier": 'say "hi"'},
    annotations={"b": "line 1\nline 2", "A.example/Case": "é\u200b\U0001f600\x07\x1b"},
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.namespace", "shop"),
        ("metadata.uid", "u-1"),
        ("metadata.labels", 'a.example/tier="say \\"hi\\""\napp="x"'),
        ("metadata.annotations", 'A.example/Case="é\\u200b😀\\a\\x1b"\nb="line 1\\nline 2"'),
        ("metadata.labels['app']", "x"),
        ("metadata.labels['missing']", ""),
        ("metadata.labels['a.example/tier']", 'say "hi"'),
        ("metadata.annotations['A.example/Case']", "é\u200b\U0001f600\x07\x1b"),
        ("spec.nodeName", "node-1"),
        ("spec.host", "node-1"),
        ("spec.serviceAccountName", "robot"),
        ("status.hostIP", "192.0.2.7"),
        ("status.hostIPs", "192.0.2.7,2001:db8::7"),
        ("status.podIP", "10.0.0.5"),
        ("status.podIPs", "10.0.0.5,fd00::5"),
    ],
)
def test_field_of_the_pod_has_its_value_as_text(path: str, value: str) -> None:
    assert downward.field_value(POD, path, CONTEXT) == value


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.restartPolicy", "field label not supported: spec.restartPolicy"),
        ("", "field label not supported: "),
        ("spec['x']", "does not support subscript"),
        ("metadata.labels['']", "invalid key subscript"),
        ("metadata.labels['a b']", "invalid key subscript"),
        ("metadata.labels['Upper.Prefix/app']", "invalid key subscript"),
        ("metadata.labels['a/b/c']", "invalid key subscript"),
        (f"metadata.labels['{'a' * 64}']", "invalid key subscript"),
    ],
)
def test_unsupported_field_raises(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        downward.field_value(POD, path, CONTEXT)
    assert caught.value.reason is ConfigReason.CREATE_CONTAINER_CONFIG


def test_versions_of_field_references() -> None:
    assert downward.field_ref_value(POD, ObjectFieldSelector(field_path="metadata.name"), CONTEXT) == "web"
    ref = ObjectFieldSelector(api_version="v2", field_path="metadata.name")
    with pytest.raises(ConfigError, match="unsupported pod version: v2"):
        downward.field_ref_value(POD, ref, CONTEXT)


def test_the_specs_node_name_comes_first() -> None:
    assert downward.field_value(make_pod({"nodeName": "other"}), "spec.nodeName", CONTEXT) == "other"


def test_missing_pod_address_is_empty_and_host_address_an_error() -> None:
    assert downward.field_value(POD, "status.podIP", DownwardContext()) == ""
    with pytest.raises(ConfigError, match="address is not known"):
        downward.field_value(POD, "status.hostIP", DownwardContext())


def test_on_the_hosts_network_the_nodes_addresses_are_the_pods() -> None:
    context = DownwardContext(host_ips=("192.0.2.7", "2001:db8::7"))
    pod = make_pod({"hostNetwork": True})
    assert downward.field_value(pod, "status.podIP", context) == "192.0.2.7"
    assert downward.field_value(pod, "status.podIPs", context) == "192.0.2.7,2001:db8::7"


@pytest.mark.parametrize(
    ("pod_ips", "node_ips", "expected"),
    [
        ((), (), ()),
        (("fd00::1", "10.0.0.1"), (), ("10.0.0.1", "fd00::1")),
        (("10.0.0.1", "fd00:0::1", "fd00::2"), ("2001:db8::1",), ("fd00::1", "10.0.0.1")),
        (("fd00::1",), ("192.0.2.1",), ("fd00::1",)),
        (("garbage", "10.0.0.1"), ("192.0.2.1",), ("10.0.0.1",)),
    ],
)
def test_ordered_pod_ips(pod_ips: tuple[str, ...], node_ips: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert downward.ordered_pod_ips(pod_ips, node_ips) == expected


RESOURCES: Fields = {
    "limits": {"cpu": "1500m", "memory": "100Mi", "hugepages-2Mi": "4Mi"},
    "requests": {"cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1G"},
}


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("limits.cpu", "0", "2"),
        ("requests.cpu", None, "1"),
        ("requests.cpu", "100m", "3"),
        ("limits.memory", None, "104857600"),
        ("limits.memory", "1Mi", "100"),
        ("requests.memory", "1Gi", "1"),
        ("requests.ephemeral-storage", "1M", "1000"),
        ("limits.ephemeral-storage", "1", "10000000000"),  # the node's
        ("limits.hugepages-2Mi", "1Mi", "4"),
        ("requests.hugepages-2Mi", "1", "0"),
        ("limits.hugepages-1Gi", "1", "0"),
    ],
)
def test_resource_of_a_container_is_divided_and_rounded_up(resource: str, divisor: str | None, value: str) -> None:
    ref = ResourceFieldSelector(resource=resource, divisor=divisor)
    assert downward.resource_value(POD, make_container(resources=RESOURCES), ref, CONTEXT) == value


@pytest.mark.parametrize(
    ("resource", "value"), [("limits.cpu", "2"), ("limits.memory", "4294967296"), ("requests.cpu", "0")]
)
def test_without_limits_the_node_is_the_limit(resource: str, value: str) -> None:
    assert downward.resource_value(POD, Container(name="c"), ResourceFieldSelector(resource=resource), CONTEXT) == value


def test_limits_of_the_pod_as_a_whole_come_before_the_nodes() -> None:
    pod = make_pod({"resources": {"limits": {"cpu": "700m", "ephemeral-storage": "1"}}})
    values = [
        downward.resource_value(pod, Container(name="c"), ResourceFieldSelector(resource=name, divisor="1m"), CONTEXT)
        for name in ("limits.cpu",)
    ]
    assert values == ["700"]
    storage = ResourceFieldSelector(resource="limits.ephemeral-storage")
    assert downward.resource_value(pod, Container(name="c"), storage, CONTEXT) == "10000000000"


def test_another_container_may_be_named() -> None:
    pod = make_pod(
        {
            "containers": [{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "3"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "4"}}}],
        }
    )
    for name, value in (("b", "3"), ("i", "4"), ("a", "0"), ("", "0")):
        ref = ResourceFieldSelector(resource="requests.cpu", container_name=name)
        assert downward.resource_value(pod, pod.spec.containers[0], ref, CONTEXT) == value
    ref = ResourceFieldSelector(resource="requests.cpu", container_name="unknown")
    with pytest.raises(ConfigError, match="container unknown not found"):
        downward.resource_value(pod, pod.spec.containers[0], ref, CONTEXT)


@pytest.mark.parametrize("resource", ["limits.gpu", "cpu", "usage.cpu", "", "limits.", "limits.hugepages"])
def test_unsupported_resource_raises(resource: str) -> None:
    with pytest.raises(ConfigError, match="unsupported container resource"):
        downward.resource_value(POD, make_container(), ResourceFieldSelector(resource=resource), CONTEXT)


def test_a_malformed_quantity_is_the_owners_error() -> None:
    container = make_container(resources={"limits": {"cpu": "lots"}})
    with pytest.raises(ConfigError, match=r"container app: limits\.cpu: 'lots' is not a quantity"):
        downward.resource_value(POD, container, ResourceFieldSelector(resource="limits.cpu"), CONTEXT)
