"""Debian's CNI plugins with real pods: each network is that of a runtime handler of its own."""

import json
import shlex
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.runtime import bridge_network
from pykubelet.testing.traces import remove_cgroups
from pykubelet.testing.wait import until_answer
from tests.contract.cri.rig import CGROUP, Program, Runtime, connected
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_PLUGINS = Path("/usr/lib/cni")
_KINDS = ("chain", "ptp", "macvlan", "host-device", "ipvlan", "vrf", "newer", "several", "further", "second")
_SLEEP = Program("sleep", ("sleep", "600"), Script())
_NEWER = """#!/bin/sh
# A plugin of CNI 1.1: it is ready unless a file says otherwise, and notes what is to be kept at a GC.
given=$(cat)
echo "$CNI_COMMAND" >> {home}/newer-calls
case "$CNI_COMMAND" in
STATUS) [ ! -e {home}/newer-down ] || {{ echo '{{"cniVersion": "1.1.0", "code": 50, "msg": "no daemon"}}'; exit 1; }} ;;
GC) echo "$given" > {home}/newer-gc ;;
ADD) echo '{{"cniVersion": "1.1.0", "interfaces": [], "ips": [{{"address": "10.99.9.9/24"}}]}}' ;;
esac
"""

_SECOND = """
# A plugin, as Multus, that gives the pod another interface with an address of its own.
import json, os, sys
given = json.load(sys.stdin)
if os.environ["CNI_COMMAND"] == "ADD":
    with open(HOME + "/second-given", "w") as file:
        json.dump(given, file)
    result = given["prevResult"]
    result["interfaces"].append({"name": "net1", "sandbox": os.environ["CNI_NETNS"]})
    result["ips"].insert(0, {"address": "10.98.9.9/24", "interface": len(result["interfaces"]) - 1})
    json.dump(result, sys.stdout)
"""


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True)


@dataclass(frozen=True, slots=True)
class Networks:
    """A server with a handler for each network."""

    server: PrivateCriServer
    link: str
    """The node's end of a pair of interfaces; the other one, `peer`, is the plugins' to use."""

    @property
    def peer(self) -> str:
        return f"{self.link}p"

    def subnet(self, kind: str) -> str:
        """Ranges of the last networks of the server's own subnet, of 8 addresses each."""
        smaller = list(ip_network(self.server.subnet).subnets(new_prefix=29))
        return str(smaller[-1 - _KINDS.index(kind)])

    def gateway(self, kind: str) -> str:
        return str(next(iter(ip_network(self.subnet(kind)).hosts())))

    def addresses(self, kind: str) -> dict[str, object]:
        return {
            "type": "host-local",
            "dataDir": str(self.server.home / "ipam" / kind),
            "ranges": [[{"subnet": self.subnet(kind), "gateway": self.gateway(kind)}]],
        }

    def plugins(self, kind: str) -> list[dict[str, Any]]:
        """The plugins of a network."""
        match kind:
            case "chain":
                chain = bridge_network(f"{self.server.bridge}b", self.subnet(kind), self.server.home / "ipam" / "chain")
                return [
                    *chain["plugins"],  # type: ignore[misc]  # a list
                    {"type": "bandwidth", "capabilities": {"bandwidth": True}},
                    {"type": "firewall", "backend": "iptables"},
                    {"type": "tuning", "sysctl": {"net.core.somaxconn": "321"}, "mtu": 1234},
                ]
            case "macvlan" | "ipvlan":
                return [{"type": kind, "master": self.peer, "ipam": self.addresses(kind)}]
            case "host-device":
                return [{"type": kind, "device": self.peer, "ipam": self.addresses(kind)}]
            case "vrf":
                return [{"type": "ptp", "ipam": self.addresses(kind)}, {"type": "vrf", "vrfname": "blue"}]
            case "second":
                wanted = {"io.kubernetes.cri.pod-annotations": True, "cgroupPath": True}
                return [{"type": "ptp", "ipam": self.addresses(kind)}, {"type": kind, "capabilities": wanted}]
            case "newer":
                return [{"type": kind}]
            case "several" | "further":
                return [{"type": "ptp", "ipam": self.addresses(kind)}]
        return [{"type": kind, "ipMasq": True, "ipam": self.addresses(kind)}]

    def prepare(self) -> None:
        """Write the networks, and make the pair of interfaces."""
        for kind in _KINDS:
            directory = self.server.home / "networks" / kind
            directory.mkdir(parents=True, exist_ok=True)
            # Also the oldest ones, and a file that names several and not the one to use.
            version: dict[str, object] = {"cniVersion": {"newer": "1.1.0", "ptp": "0.2.0"}.get(kind, "1.0.0")}
            if kind == "host-device":
                version = {"cniVersions": ["0.4.0", "1.0.0"]}
            document = {**version, "name": f"{self.server.bridge}-{kind}", "plugins": self.plugins(kind)}
            (directory / "10.conflist").write_text(json.dumps(document))
            if kind == "several":
                for number, other in enumerate(("further", "macvlan"), 2):
                    document |= {"name": f"{self.server.bridge}-{other}", "plugins": self.plugins(other)}
                    (directory / f"{number}0.conflist").write_text(json.dumps(document))
        plugins = self.server.home / "plugins"
        plugins.mkdir()
        (plugins / "newer").write_text(_NEWER.format(home=shlex.quote(str(self.server.home))))
        (plugins / "newer").chmod(0o755)
        (plugins / "second").write_text(f"#!/usr/bin/python3\nHOME = {str(self.server.home)!r}\n{_SECOND}")
        (plugins / "second").chmod(0o755)
        for words in (
            ("add", self.link, "type", "veth", "peer", self.peer),
            ("set", self.link, "up"),
            ("set", self.peer, "up"),
        ):
            done = _ip("link", *words)
            assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def networks(isolation: Isolation) -> Iterator[Networks]:
    home = isolation.home / "k"
    special = {
        kind: {"path": "runc", "cni_conf_dir": str(home / "networks" / kind)}
        | ({"cni_max_conf_num": 2} if kind == "several" else {})
        for kind in _KINDS
    }
    server = PrivateCriServer(
        home,
        f"{isolation.bridge}k",
        isolation.further_subnet("k"),
        further={"handlers": {"runc": {"path": "runc"}, **special}},
        cni={"bin_dirs": [str(home / "plugins"), str(_PLUGINS)], "collect_garbage": True},
    )
    made = Networks(server, f"{isolation.bridge}v")
    try:
        server.write_configuration()
        made.prepare()
        server.load(ImageSpec(BUSYBOX))
        server.start()
        yield made
    finally:
        server.destroy()
        PrivateCriServer(home, f"{isolation.bridge}kb", "").destroy()
        _ip("link", "delete", made.link)
        remove_cgroups(CGROUP)


@pytest.fixture
async def runtime(networks: Networks, tmp_path: Path) -> AsyncIterator[Runtime]:
    async with connected(networks.server.endpoint, tmp_path) as made:
        yield made


def _need(kind: str, option: str) -> None:
    """Skip, with the reason, if the kernel has no such interfaces."""
    name = f"pk{kind[:6]}0"
    words = ("link", "lo") if kind != "vrf" else ()
    options = ("table", "77") if kind == "vrf" else ()
    done = _ip("link", "add", *words, name, "type", kind, *options)
    _ip("link", "delete", name)
    if "Unknown device type" in done.stderr or "not supported" in done.stderr:
        pytest.skip(f"this kernel has no {kind} interfaces ({option}): {done.stderr.strip()}")


async def _pod(
    runtime: Runtime, networks: Networks, kind: str, attempt: int = 0, **pod: object
) -> tuple[SandboxID, ContainerID, str]:
    """A running container in a pod of a network; return sandbox, container and address."""
    config = runtime.pod_config(attempt)
    config.MergeFrom(pb.PodSandboxConfig(**pod))  # type: ignore[arg-type]  # fields of the message
    sandbox = await runtime.sandbox(config, kind)
    container = await runtime.client.create_container(sandbox, runtime.container_config(_SLEEP, attempt), config)
    await runtime.client.start_container(container)
    address = (await runtime.client.pod_sandbox_status(sandbox)).status.network.ip
    assert ip_address(address) in ip_network(networks.subnet(kind))
    return sandbox, container, address


async def _said(runtime: Runtime, container: ContainerID, command: str) -> str:
    result = await runtime.client.exec_sync(container, ["sh", "-c", command], 20)
    assert result.exit_code == 0, (command, result.stdout, result.stderr)
    return result.stdout.decode().strip()


def _rules() -> str:
    return subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout


def _queues() -> str:
    return subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True).stdout


async def test_chain_of_five_cni_plugins_configures_the_pod(runtime: Runtime, networks: Networks) -> None:
    rates = {"kubernetes.io/ingress-bandwidth": "9M", "kubernetes.io/egress-bandwidth": "17M"}
    ports = [pb.PortMapping(protocol=pb.TCP, container_port=80, host_port=free_port(), host_ip="127.0.0.1")]
    sandbox, container, address = await _pod(runtime, networks, "chain", annotations=rates, port_mappings=ports)
    assert await _said(runtime, container, "cat /proc/sys/net/core/somaxconn /sys/class/net/eth0/mtu") == "321\n1234"
    assert _ip("-4", "addr", "show", f"{networks.server.bridge}b").stdout.count(networks.gateway("chain")) == 1
    rules = _rules()
    assert f"-s {address}/32" in rules and f"{address}:80" in rules, rules
    queues = _queues()
    assert "rate 9Mbit" in queues and "rate 17Mbit" in queues, queues
    _, other, further = await _pod(runtime, networks, "chain", 1)
    await _said(runtime, other, f"ping -c 1 -W 5 {address}")
    await runtime.client.stop_pod_sandbox(sandbox)
    rules = _rules()
    assert f"{address}/32" not in rules and f"{address}:80" not in rules and f"{further}/32" in rules, rules
    queues = _queues()
    assert "rate 9Mbit" not in queues and "rate 17Mbit" not in queues, queues


async def test_ptp_pods_reach_the_node_and_leave_no_route(runtime: Runtime, networks: Networks) -> None:
    sandbox, container, address = await _pod(runtime, networks, "ptp")
    await _said(runtime, container, f"ping -c 1 -W 5 {networks.gateway('ptp')}")
    assert f"{address} " in _ip("route", "show").stdout
    await runtime.client.stop_pod_sandbox(sandbox)
    assert f"{address} " not in _ip("route", "show").stdout


async def test_macvlan_pods_of_one_interface_reach_each_other(runtime: Runtime, networks: Networks) -> None:
    _need("macvlan", "CONFIG_MACVLAN")
    sandbox, _, address = await _pod(runtime, networks, "macvlan")
    _, other, _ = await _pod(runtime, networks, "macvlan", 1)
    await _said(runtime, other, f"ping -c 1 -W 5 {address}")
    assert "macvlan" not in _ip("-d", "link", "show", "type", "macvlan").stdout
    await runtime.client.stop_pod_sandbox(sandbox)
    assert not list((networks.server.home / "ipam" / "macvlan").glob(f"*/{address}"))


async def test_ipvlan_pods_of_one_interface_reach_each_other(runtime: Runtime, networks: Networks) -> None:
    _need("ipvlan", "CONFIG_IPVLAN")
    _, _, address = await _pod(runtime, networks, "ipvlan")
    _, other, _ = await _pod(runtime, networks, "ipvlan", 1)
    await _said(runtime, other, f"ping -c 1 -W 5 {address}")


async def test_host_device_moves_an_interface_and_gives_it_back(runtime: Runtime, networks: Networks) -> None:
    _ip("addr", "add", f"{networks.gateway('host-device')}/29", "dev", networks.link)
    sandbox, container, _ = await _pod(runtime, networks, "host-device")
    assert _ip("link", "show", networks.peer).returncode != 0
    await _said(runtime, container, f"ping -c 1 -W 5 {networks.gateway('host-device')}")
    await runtime.client.stop_pod_sandbox(sandbox)
    assert _ip("link", "show", networks.peer).returncode == 0
    _ip("addr", "flush", "dev", networks.link)
    _ip("link", "set", networks.peer, "up")


async def test_vrf_holds_the_interface_of_the_pod(runtime: Runtime, networks: Networks) -> None:
    _need("vrf", "CONFIG_NET_VRF")
    _, container, _ = await _pod(runtime, networks, "vrf")
    assert "blue" in await _said(runtime, container, "ip link show eth0")


async def test_pod_of_a_handler_with_several_networks_has_an_interface_on_each(
    runtime: Runtime, networks: Networks
) -> None:
    """Its address is that of eth0; the third network of the directory is beyond `cni_max_conf_num`."""
    sandbox, container, address = await _pod(runtime, networks, "several")
    status = (await runtime.client.pod_sandbox_status(sandbox)).status
    assert [each.ip for each in status.network.additional_ips] == []
    shown = await _said(runtime, container, "ip -o -4 addr show; ls /sys/class/net")
    other = next(
        word
        for word in shown.split()
        if word.startswith(networks.subnet("further").rpartition(".")[0])
        and ip_address(word.partition("/")[0]) in ip_network(networks.subnet("further"))
    )
    assert {"eth0", "eth1"} <= set(shown.split()) and "eth2" not in shown
    await _said(runtime, container, f"ping -c 1 -W 5 -I eth1 {networks.gateway('further')}")
    held = networks.server.home / "ipam"
    assert list(held.glob(f"further/*/{other.partition('/')[0]}")) and list(held.glob(f"several/*/{address}"))
    await runtime.client.stop_pod_sandbox(sandbox)
    assert not list(held.glob("further/*/1*")) and not list(held.glob(f"several/*/{address}"))


async def test_address_of_another_interface_is_none_of_the_pod(runtime: Runtime, networks: Networks) -> None:
    """The API rejects two addresses of one family. The plugin gets what it asks for of the pod."""
    annotations = {"k8s.example/networks": "blue"}
    sandbox, _, _ = await _pod(runtime, networks, "second", annotations=annotations)
    status = (await runtime.client.pod_sandbox_status(sandbox)).status
    assert list(status.network.additional_ips) == []
    given = json.loads((networks.server.home / "second-given").read_text())["runtimeConfig"]
    assert given["io.kubernetes.cri.pod-annotations"]["k8s.example/networks"] == "blue"
    assert given["cgroupPath"] == f"/{CGROUP}"


async def test_status_and_gc_of_a_plugin_of_cni_1_1(runtime: Runtime, networks: Networks) -> None:
    """No plugin of Debian 12 knows these verbs: it is a plugin of the test's own, in the node's directory."""
    home = networks.server.home
    own = {"cniVersion": "1.1.0", "name": "newer", "plugins": [{"type": "newer"}]}
    (home / "cni" / "05-newer.conflist").write_text(json.dumps(own))

    async def problem() -> str:
        info = (await runtime.client.status(verbose=True)).info["lastCNILoadStatus"]
        return str(json.loads(info))

    async def ready() -> bool:
        return (
            await problem() == "OK"
            and json.loads((await runtime.client.status(verbose=True)).info["cniconfig"])["networks"][0]["name"]
            == "newer"
        )

    async def down() -> bool:
        return "no daemon" in await problem()

    try:
        await until_answer(ready)
        (home / "newer-down").touch()
        await until_answer(down)
        (home / "newer-down").unlink()
        await until_answer(ready)
        networks.server.stop()
        networks.server.start()
        sandbox = await until_answer(lambda: runtime.sandbox())
        await until_answer(_exists_for(home / "newer-gc"))
        kept = json.loads((home / "newer-gc").read_text())["cni.dev/valid-attachments"]
        assert all(each["ifname"] == "eth0" for each in kept)
        await runtime.client.stop_pod_sandbox(sandbox)
    finally:
        (home / "cni" / "05-newer.conflist").unlink()
    assert {"STATUS", "ADD", "DEL", "GC"} <= set((home / "newer-calls").read_text().split())


def _exists_for(path: Path) -> Any:
    async def ask() -> bool:
        return path.exists() and path.read_text().endswith("}\n")

    return ask
