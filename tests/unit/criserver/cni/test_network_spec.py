"""The rules of the CNI specification."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies
from msgspec.structs import replace

from pykubelet.base.errors import Invalid
from pykubelet.criserver.cni import AttachRequest, PortMap
from pykubelet.criserver.cni.network_types import Json, Masquerade, NetworkList
from pykubelet.criserver.cni.plan.network_spec import (
    SUPPORTED,
    addresses,
    busy_plugins,
    candidates,
    default_network,
    environment,
    failure,
    parse_network,
    parse_reply,
    plugin_input,
    runtime_arguments,
    supports_check,
    supports_status,
    with_plugins,
)
from pykubelet.criserver.types import SandboxID

REQUEST = AttachRequest(SandboxID("s1"), "/ns/net", "default", "web", "u1")
LIST = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}, {"type": "portmap"}]}


def test_files_are_tried_in_order() -> None:
    assert candidates(["20-b.conf", "10-a.conflist", "README", ".hidden.conf", "15.json"]) == [
        "10-a.conflist",
        "15.json",
        "20-b.conf",
    ]


@pytest.mark.parametrize("version", SUPPORTED)
def test_lists_of_every_version(version: str) -> None:
    network = parse_network(json.dumps({**LIST, "cniVersion": version}).encode(), "f")
    assert (network.name, network.version, len(network.plugins)) == ("net", version, 2)
    assert supports_check(network) is (version >= "0.4.0")
    assert supports_status(network) is (version == "1.1.0")


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({}, "0.1.0"),
        ({"cniVersion": ""}, "0.1.0"),
        ({"cniVersions": ["0.4.0", "1.0.0"]}, "1.0.0"),
        ({"cniVersion": "0.3.1", "cniVersions": ["1.1.0", "9.0.0"]}, "1.1.0"),
        ({"cniVersion": "1.1.0", "cniVersions": ["0.3.1"]}, "1.1.0"),
        ({"cniVersion": "9.0.0", "cniVersions": ["0.4.0"]}, "0.4.0"),
    ],
)
def test_newest_known_version_of_those_named_is_used(fields: Json, version: str) -> None:
    document = {"name": "net", "plugins": [{"type": "bridge"}], **fields}
    assert parse_network(json.dumps(document).encode(), "f").version == version


def test_a_single_configuration_is_a_list_of_one() -> None:
    network = parse_network(b'{"cniVersion": "0.3.1", "name": "n", "type": "bridge", "bridge": "b0"}', "f")
    assert [plugin["type"] for plugin in network.plugins] == ["bridge"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("nope", "one object"),
        ({**LIST, "name": ""}, "name"),
        ({**LIST, "cniVersion": "9.9"}, "cniVersion"),
        ({**LIST, "cniVersion": "", "cniVersions": ["9.9", 7, None]}, "cniVersion"),
        ({**LIST, "plugins": []}, "plugins"),
        ({**LIST, "plugins": [{"type": "../evil"}]}, "bare name"),
        ({**LIST, "plugins": [{"type": "/bin/sh"}]}, "bare name"),
        ({**LIST, "plugins": [{}]}, r"plugins\[0\].type"),
        ({**LIST, "plugins": {}}, "plugins"),
        ({**LIST, "disableGC": "yes"}, "disableGC must be true or false"),
        ({**LIST, "disableCheck": 1}, "disableCheck must be true or false"),
    ],
)
def test_bad_network_configuration_is_refused_by_the_field(document: object, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        with_plugins(parse_network(json.dumps(document).encode(), "f"), (), "f")


@given(strategies.binary(max_size=200))
def test_no_bytes_break_the_parser(data: bytes) -> None:
    try:
        parse_network(data, "f")
    except Invalid:
        pass


def test_plugin_input_has_capabilities_and_the_previous_result() -> None:
    plugin: Json = {"type": "portmap", "capabilities": {"portMappings": True, "bandwidth": False, "dns": True}}
    network = parse_network(json.dumps({**LIST, "plugins": [plugin]}).encode(), "f")
    request = AttachRequest(
        SandboxID("s1"), "/n", "d", "w", "u", (PortMap(80, 8080, "tcp", "127.0.0.1"),), dns_servers=("10.0.0.1",)
    )
    found = plugin_input(network, plugin, request, {"ips": []})
    assert found["prevResult"] == {"ips": []}
    assert "capabilities" not in found
    assert found["runtimeConfig"] == {
        "portMappings": [{"hostPort": 80, "containerPort": 8080, "protocol": "tcp", "hostIP": "127.0.0.1"}],
        "dns": {"servers": ["10.0.0.1"]},
    }
    assert "runtimeConfig" not in plugin_input(network, plugin, REQUEST, None)


def test_bandwidth_has_a_burst_for_each_rate() -> None:
    request = AttachRequest(SandboxID("s"), "/n", "d", "w", "u", ingress_rate=1_000_000)
    assert runtime_arguments(request) == {"bandwidth": {"ingressRate": 1_000_000, "ingressBurst": 2**31 - 1}}


def test_addresses_that_are_asked_for() -> None:
    request = msgspec.structs.replace(REQUEST, ips=("10.0.0.5", "fd00::5/64"), mac="02:00:00:00:00:01")
    assert runtime_arguments(request) == {"ips": ["10.0.0.5", "fd00::5/64"], "mac": "02:00:00:00:00:01"}


def test_plugin_environment_has_command_container_and_arguments() -> None:
    found = environment("ADD", REQUEST, "/ns/net", "/bin")
    assert found["CNI_COMMAND"] == "ADD"
    assert found["CNI_CONTAINERID"] == "s1"
    assert "K8S_POD_NAME=web" in found["CNI_ARGS"].split(";")


def test_a_semicolon_cannot_smuggle_arguments() -> None:
    with pytest.raises(Invalid, match="semicolon"):
        environment("ADD", AttachRequest(SandboxID("s"), "/n", "d", "a;B=c", "u"), "/n", "/b")


def test_addresses_of_the_pod_only() -> None:
    result = {
        "interfaces": [{"name": "br0"}, {"name": "eth0", "sandbox": "/ns/net"}],
        "ips": [
            {"address": "10.1.0.1/24", "interface": 0},
            {"address": "10.1.0.2/24", "interface": 1},
            {"address": "fd00::2/64"},
            {"address": 7},
        ],
    }
    assert addresses(result) == ("10.1.0.2", "fd00::2")
    assert addresses({}) == ()


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("eth0", "net1"), ("10.1.0.2",)),
        (("net1", "eth0"), ("10.2.0.2",)),
        (("a", "b"), ("10.1.0.2", "10.2.0.2")),
    ],
)
def test_addresses_of_the_first_interface_only_if_it_is_known(
    names: tuple[str, str], expected: tuple[str, ...]
) -> None:
    result: Json = {
        "interfaces": [{"name": name, "sandbox": "/ns/net"} for name in names],
        "ips": [{"address": "10.1.0.2/24", "interface": 0}, {"address": "10.2.0.2/24", "interface": 1}],
    }
    assert addresses(result) == expected


def test_addresses_of_the_pods_interface_count_though_the_plugin_names_no_sandbox() -> None:
    interfaces: list[object] = [{"name": "eth0", "mac": "02:00:00:00:00:01"}, {"name": "br0"}]
    ips = [{"address": "10.1.2.3/24", "interface": 0}, {"address": "10.1.2.1/24", "interface": 1}]
    assert addresses({"interfaces": interfaces, "ips": ips}) == ("10.1.2.3",)


def test_addresses_of_ipv4_come_first() -> None:
    result: Json = {"ips": [{"address": "fd00::2/64"}, {"address": "10.1.0.2/24"}]}
    assert addresses(result) == ("10.1.0.2", "fd00::2")


def test_addresses_in_the_form_of_old_plugins() -> None:
    result: Json = {"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.2/24"}, "ip6": {"ip": "fd00::2/64"}, "dns": {}}
    assert addresses(result) == ("10.1.0.2", "fd00::2")
    assert addresses({"ip4": "10.1.0.2", "ip6": {"ip": 7}}) == ()


def test_annotations_and_cgroup_for_plugins_that_ask_for_them() -> None:
    request = replace(REQUEST, annotations={"a/b": "c"}, cgroup_parent="/kubepods/pod1")
    network = NetworkList("net", "1.0.0", ())
    plugin: Json = {"type": "x", "capabilities": {"io.kubernetes.cri.pod-annotations": True, "cgroupPath": True}}
    assert plugin_input(network, plugin, request, None)["runtimeConfig"] == {
        "io.kubernetes.cri.pod-annotations": {"a/b": "c"},
        "cgroupPath": "/kubepods/pod1",
    }
    assert "runtimeConfig" not in plugin_input(network, {"type": "x"}, request, None)


@pytest.mark.parametrize(
    "result",
    [
        {"interfaces": [1, None, "eth0", []], "ips": [{"address": "10.1.0.2/24", "interface": 0}]},
        {"interfaces": {"a": 1}, "ips": {"address": "10.1.0.2"}},
        {"ips": [None, 5, {"address": None}, {"address": "no address"}, {"address": "1" * 5000}]},
    ],
)
def test_addresses_of_a_plugin_that_prints_garbage_are_none(result: Json) -> None:
    assert addresses(result) == ()


@pytest.mark.parametrize("said", [b'{"a": "\\ud800"}', b"\xff", b"[" * 100_000, b'{"a": NaN}', b"{"])
def test_reply_that_cannot_be_written_down_is_refused(said: bytes) -> None:
    """It is kept with the attachment, for the release of the address."""
    with pytest.raises(Invalid, match="CNI plugin bridge answered"):
        parse_reply("ADD", said, "bridge")
    assert failure(said, b"panic") == "panic"


def test_plugin_reply_is_parsed_and_failure_has_its_message() -> None:
    assert parse_reply("DEL", b"", "bridge") == {}
    with pytest.raises(Invalid, match="answered nothing"):
        parse_reply("ADD", b" ", "bridge")
    with pytest.raises(Invalid, match="bridge"):
        parse_reply("DEL", b"[]", "bridge")
    assert failure(b'{"code": 7, "msg": "no", "details": "why"}', b"") == "no: why"
    assert failure(b"oops", b"panic") == "panic"
    assert failure(b"", b"") == "no message"


def test_the_default_network_is_valid() -> None:
    for limits in (False, True):
        made = default_network("b0", "10.0.0.0/16", "/ipam", limits=limits)
        network = parse_network(json.dumps(made).encode(), "f")
        assert ("bandwidth" in [plugin["type"] for plugin in network.plugins]) == limits
        assert network.masquerade == Masquerade("b0", "10.0.0.0/16")
        assert [plugin["type"] for plugin in busy_plugins(network, REQUEST)] == ["bridge"]


@pytest.mark.parametrize(
    ("plugin", "asked", "called"),
    [
        ({"type": "portmap", "capabilities": {"portMappings": True}}, {}, False),
        ({"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}, {}, False),
        ({"type": "portmap", "capabilities": {"portMappings": True}}, {"ports": (PortMap(80, 80, "tcp"),)}, True),
        ({"type": "portmap", "capabilities": {"portMappings": False}}, {}, True),
        ({"type": "portmap"}, {}, True),
        ({"type": "bandwidth", "capabilities": {"bandwidth": True}}, {}, False),
        ({"type": "bandwidth", "capabilities": {"bandwidth": True}}, {"egress_rate": 1000}, True),
        ({"type": "bandwidth", "capabilities": {"bandwidth": True}, "ingressRate": 8, "ingressBurst": 8}, {}, True),
        ({"type": "tuning", "capabilities": {"mac": True}}, {}, True),
    ],
)
def test_plugins_that_would_do_nothing(plugin: Json, asked: dict[str, Any], called: bool) -> None:
    request = replace(REQUEST, **asked)
    network = NetworkList("n", "1.0.0", ({"type": "bridge"}, plugin))
    assert (plugin in busy_plugins(network, request)) is called
    # The first one makes the result.
    assert busy_plugins(NetworkList("n", "1.0.0", (plugin,)), request) == [plugin]


@pytest.mark.parametrize(
    "wanted",
    [
        *(1, {}, {"bridge": "b0"}, {"bridge": "b0", "subnet": "10.0.0.1/16"}, {"bridge": "b0", "subnet": "many"}),
        {"bridge": "-j ACCEPT", "subnet": "10.0.0.0/16"},
    ],
)
def test_nonsense_is_not_masqueraded(wanted: object) -> None:
    document = {"cniVersion": "1.0.0", "name": "n", "type": "bridge", "pykubelet": {"masquerade": wanted}}
    with pytest.raises(Invalid, match=r"f: pykubelet\.masquerade must have"):
        parse_network(json.dumps(document).encode(), "f")
