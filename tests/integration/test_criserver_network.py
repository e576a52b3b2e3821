"""Pod networks of the runtime server with the machine's CNI plugins: capabilities, CHECK, forwarded ports."""

import ipaddress
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from pykubelet.base.errors import PykubeletError
from pykubelet.base.proc import ExitError, run
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.pb import runtime_v1_pb2 as pb
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.fake_cri import Script
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.streams import all_of, forward, forwarded
from tests.contract.cri.rig import Program, Runtime

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]

_MAC = "02:00:00:ab:cd:ef"
_WEB = Program("web", ("sh", "-c", "mkdir /www; echo hello > /www/index.html; exec httpd -f -p 8080 -h /www"), Script())
_GET = b"GET / HTTP/1.0\r\n\r\n"


@pytest.fixture
def web() -> Iterator[int]:
    """A port of the node that sends one word to each client."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100)
                    connection.sendall(b"the node")

        thread = threading.Thread(target=serve, name="web")
        thread.start()
        yield int(server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def _said(runtime: Runtime, container: ContainerID, command: str) -> str:
    result = await runtime.client.exec_sync(container, ["sh", "-c", command], 20)
    assert result.exit_code == 0, result.stderr
    return result.stdout.decode().strip()


def _get(host: str, port: int) -> bytes:
    with socket.create_connection((host, port), timeout=20 * PATIENCE) as connection:
        connection.sendall(_GET)
        answer = b""
        while data := connection.recv(4096):
            answer += data
    return answer


def _queues() -> str:
    return subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True, check=True).stdout


@pytest.fixture
def allowing(daemon: PrivateRuntime) -> Iterator[PrivateCriServer]:
    """The server, configured to let pods request their addresses."""
    assert isinstance(daemon, PrivateCriServer)
    other = replace(daemon, cni={**daemon.cni, "pod_addresses": True})
    daemon.stop()
    other.start()
    yield other
    other.stop()
    daemon.start()


async def test_pod_that_requests_address_of_another_is_refused(runtime: Runtime) -> None:
    first = await runtime.sandbox()
    address = (await runtime.client.pod_sandbox_status(first)).status.network.ip
    for annotation, wanted in (("cni.pykubelet/mac", _MAC), ("cni.pykubelet/ips", address)):
        pod = runtime.pod_config(attempt=1)
        pod.annotations[annotation] = wanted
        with pytest.raises(PykubeletError, match="asks for an address by its annotations"):
            await runtime.sandbox(pod)


async def test_cni_capabilities_take_effect(runtime: Runtime, allowing: PrivateCriServer) -> None:
    """Capabilities ips, mac, portMappings and bandwidth, verified in the kernel."""
    daemon = allowing
    wanted = str(ipaddress.ip_network(daemon.subnet)[200])
    port = free_port()
    pod = runtime.pod_config()
    rates = {"kubernetes.io/ingress-bandwidth": "8M", "kubernetes.io/egress-bandwidth": "16M"}
    pod.annotations.update({"cni.pykubelet/ips": wanted, "cni.pykubelet/mac": _MAC, **rates})
    pod.port_mappings.add(protocol=pb.TCP, container_port=8080, host_port=port, host_ip="127.0.0.1")
    before = _queues()
    sandbox = await runtime.sandbox(pod)
    container = await runtime.client.create_container(sandbox, runtime.container_config(_WEB), pod)
    await runtime.client.start_container(container)
    assert (await runtime.client.pod_sandbox_status(sandbox)).status.network.ip == wanted
    assert await _said(runtime, container, "cat /sys/class/net/eth0/address") == _MAC
    assert f"inet {wanted}/" in await _said(runtime, container, "ip -4 addr show dev eth0")
    await _said(runtime, container, "until wget -q -O - http://127.0.0.1:8080/; do sleep 0.05; done")
    assert _get(wanted, 8080).endswith(b"hello\n") and _get("127.0.0.1", port).endswith(b"hello\n")
    new = Counter(_queues().split()) - Counter(before.split())
    assert new["8Mbit"] == new["16Mbit"] == 1, new
    await runtime.client.stop_pod_sandbox(sandbox)
    with pytest.raises(OSError, match="refused"):
        _get("127.0.0.1", port)
    new = Counter(_queues().split()) - Counter(before.split())
    assert not new["8Mbit"] + new["16Mbit"], new


async def test_changed_network_is_reported_by_check(runtime: Runtime) -> None:
    """CHECK detects it. Without a port mapping: Debian's portmap requires IPv6 rules even without an IPv6 address."""
    pod = runtime.pod_config()
    pod.annotations["kubernetes.io/ingress-bandwidth"] = "8M"
    sandbox = await runtime.sandbox(pod)
    info = json.loads((await runtime.client.pod_sandbox_status(sandbox, verbose=True)).info["info"])
    assert info["networkProblem"] == ""
    await run(["nsenter", f"--net={info['netns']}", "ip", "address", "flush", "dev", "eth0"], timeout=10)
    info = json.loads((await runtime.client.pod_sandbox_status(sandbox, verbose=True)).info["info"])
    assert "bridge failed (CHECK)" in info["networkProblem"]


async def test_ports_of_the_node_are_forwarded_for_its_own_pods(runtime: Runtime, web: int) -> None:
    """A pod in the node's network reaches the node's ports on loopback; another pod does not."""
    host = runtime.pod_config()
    host.hostname = ""
    host.linux.security_context.namespace_options.network = pb.NODE
    answers = []
    for config in (host, runtime.pod_config(attempt=1)):
        sandbox = await runtime.sandbox(config)
        async with forwarded(await runtime.client.port_forward(sandbox, [])) as connection:
            data, error = await forward(connection, web)
            with suppress(ConnectionError):  # the port is refused already, which the error stream tells
                await data.write(_GET)
            answers.append((await all_of(data), b"refused" in await all_of(error)))
            data.finish()
    assert answers == [(b"the node", False), (b"", True)]


async def test_pods_do_not_reach_loopback_addresses_of_the_node(runtime: Runtime, web: int) -> None:
    """Though the portmap plugin lets the kernel take such packets from the bridge (CVE-2020-8558)."""
    pod = runtime.pod_config()
    pod.port_mappings.add(protocol=pb.TCP, container_port=8080, host_port=free_port(), host_ip="127.0.0.1")
    sandbox = await runtime.sandbox(pod)
    answer = await runtime.client.pod_sandbox_status(sandbox, verbose=True)
    netns = json.loads(answer.info["info"])["netns"]
    (route,) = json.loads((await _in_network(netns, "ip", "-json", "route", "show", "default")).decode())
    (link,) = json.loads((await run(["ip", "-json", "route", "get", answer.status.network.ip], timeout=10)).stdout)
    # What a pod may do that sends packets of its own, with NET_RAW. While lo has the address, the pod's kernel takes
    # answers for forged.
    for command in (
        "sysctl -q -w net.ipv4.conf.eth0.route_localnet=1",
        "ip address delete 127.0.0.1/8 dev lo",
        f"ip route add 127.0.0.0/8 via {route['gateway']} dev eth0",
    ):
        await _in_network(netns, *command.split())
    ask = f"import socket; socket.create_connection(('127.0.0.1', {web}), 2).close()"
    with pytest.raises(ExitError, match="timed out"):
        await _in_network(netns, sys.executable, "-S", "-c", ask)
    # A server may trust this address, which is not that of lo: the kernel does not take it for forged then.
    await _in_network(netns, "ip", "address", "add", "127.9.9.9/32", "dev", "eth0")
    tell = "import socket; socket.create_connection(('{}', 9), 2, ('127.9.9.9', 0)).close()".format(route["gateway"])
    with pytest.raises(ExitError, match="timed out"):
        await _in_network(netns, sys.executable, "-S", "-c", tell)
    # Another rule of the machine may drop them as well, such as that of a Go kubelet.
    rules = (await run(["iptables", "-w", "-t", "mangle", "-nvxL", "PREROUTING"], timeout=10)).stdout.decode()
    packets = [int(row.split()[0]) for row in rules.splitlines() if f"/* pods of {link['dev']} */" in row]
    assert len(packets) == 2 and all(packets), rules


async def _in_network(netns: str, *argv: str) -> bytes:
    return (await run(["nsenter", f"--net={netns}", *argv], timeout=20)).stdout
