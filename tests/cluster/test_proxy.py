"""A node that reaches its API server through a proxy, which it takes from its environment and which goes away."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.envtest import EnvTest
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.isolation import Isolation
from pykubelet.testing.kubeapi import KubeApi
from pykubelet.testing.runtime import PrivateRuntime
from tests.cluster.cluster_node import NODE
from tests.manifests import pod

pytestmark = [pytest.mark.root, pytest.mark.runtime]

# Connects every CONNECT on the first port to the second port of this machine.
_PROXY = """
import socket, sys, threading
port, target = map(int, sys.argv[1:])
listener = socket.create_server(("127.0.0.1", port))
def pump(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(client):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        if not (more := client.recv(4096)):
            return
        head += more
    server = socket.create_connection(("127.0.0.1", target))
    client.sendall(b"HTTP/1.1 200 Connection established\\r\\n\\r\\n")
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"""


class Proxy:
    """A process of its own, so that its connections end with it."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-c", _PROXY, str(self.port), str(self._target)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        wait_for(self._accepts, 20.0, lambda: "the proxy does not accept connections")

    def stop(self) -> None:
        """Kill it. Idempotent."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def proxy(apiserver: EnvTest) -> Iterator[Proxy]:
    made = Proxy(apiserver.port)
    made.start()
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def proxied(
    isolation: Isolation,
    daemon: PrivateRuntime,
    apiserver: EnvTest,
    api: KubeApi,
    node_address: str,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[AgentProcess]:
    """An agent that knows the API server by a name that only the proxy can reach."""
    home = isolation.home / "proxied"
    home.mkdir()
    kubeconfig = home / "kubelet.conf"
    document = json.loads(apiserver.node_kubeconfig(NODE).read_text())
    document["clusters"][0]["cluster"] |= {"server": "https://api.invalid:6443", "tls-server-name": "localhost"}
    kubeconfig.write_text(json.dumps(document))
    flags = ["--kubeconfig", str(kubeconfig), "--node-ip", node_address]
    agent = AgentProcess(home, daemon.endpoint, isolation.cgroup_root, NODE, {"nodeStatusUpdateFrequency": "1s"}, flags)
    with monkeypatch.context() as patch:
        for name in [each for each in os.environ if each.lower() in ("https_proxy", "no_proxy")]:
            patch.delenv(name)
        patch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        agent.start()
    try:
        yield agent
    finally:
        agent.destroy()
        for item in api.get("/api/v1/pods")["items"]:
            api.delete_pod(item["metadata"]["name"], 0)
        api.delete(f"/api/v1/nodes/{NODE}")


def test_node_behind_a_proxy_works_and_reconnects_after_its_restart(
    proxied: AgentProcess, proxy: Proxy, api: KubeApi
) -> None:
    wait_for(lambda: api.node_condition(NODE).get("status") == "True", 60.0, proxied.log_tail)
    api.run_pod(pod("early"), NODE)
    api.wait_ready("early", 30.0, proxied.log_tail)
    proxy.stop()
    api.run_pod(pod("late"), NODE)
    wait_for(lambda: "cannot connect" in proxied.log_tail(), 60.0, proxied.log_tail)
    late = api.find_pod("late")
    assert late is not None and late.status.phase == "Pending"
    proxy.start()
    api.wait_ready("late", 60.0, proxied.log_tail)
    assert proxied.stop() == 0
