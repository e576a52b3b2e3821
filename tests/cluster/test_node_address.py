"""Addresses of the node that come and change while the agent runs, and the serving certificate that follows them."""

import base64
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509

from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.envtest import EnvTest
from pykubelet.testing.kubeapi import Json, KubeApi
from tests.cluster.certificate_requests import REQUESTS, sign, wait_for_request
from tests.cluster.cluster_node import NODE

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_SERVING = "kubernetes.io/kubelet-serving"


@contextmanager
def machine_address(address: str) -> Iterator[None]:
    """Give an address to the machine, reachable only from the machine itself."""
    subprocess.run(("ip", "address", "replace", f"{address}/32", "dev", "lo"), check=True)
    try:
        yield
    finally:
        subprocess.run(("ip", "address", "delete", f"{address}/32", "dev", "lo"), check=True)


def addresses(api: KubeApi) -> dict[str, str] | None:
    """The node's addresses by type; None: there is no node."""
    node = api.node(NODE)
    return None if node is None else {a["type"]: a["address"] for a in node["status"].get("addresses", ())}


def requested(request: Json) -> list[str]:
    csr = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(each) for each in names.get_values_for_type(x509.IPAddress)]


def test_an_address_that_the_machine_gets_later_is_reported(
    agent_with: Callable[..., AgentProcess], api: KubeApi, node_address: str
) -> None:
    later = f"{node_address.rpartition('.')[0]}.2"
    agent = agent_with("late-address", "--node-ip", later)
    agent.start()
    wait_for(lambda: addresses(api) is not None, 30.0, agent.log_tail)
    wait_for(lambda: "not found in the host's network interfaces" in agent.log_tail(), 30.0, agent.log_tail)
    assert addresses(api) == {}
    with machine_address(later):
        wait_for(lambda: addresses(api) == {"InternalIP": later, "Hostname": NODE}, 30.0, agent.log_tail)
        wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)
        # The scheduler needs the CSINode: the node is not ready before it is there.
        assert api.get(f"/apis/storage.k8s.io/v1/csinodes/{NODE}")["metadata"]["name"] == NODE
        assert agent.stop() == 0


def test_loopback_address_is_refused(agent_with: Callable[..., AgentProcess], api: KubeApi) -> None:
    agent = agent_with("loopback", "--node-ip", "127.0.0.1")
    agent.start()
    wait_for(lambda: "127.0.0.1: nodeIP can't be loopback address" in agent.log_tail(), 30.0, agent.log_tail)
    wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)
    assert addresses(api) == {}
    assert agent.stop() == 0


@pytest.mark.parametrize("flags", [(), ("--node-ip", "0.0.0.0")], ids=["no-flag", "unspecified"])
def test_address_of_the_node_changes_while_it_runs(
    agent_with: Callable[..., AgentProcess], api: KubeApi, node_address: str, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """The agent's name has another address in a hosts file of its own, as after a new lease of DHCP."""
    hosts = tmp_path / "hosts"
    agent = agent_with(f"moving-{len(flags)}", *flags, serverTLSBootstrap=True)
    agent.within = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(hosts))
    before, after = (f"{node_address.rpartition('.')[0]}.{last}" for last in (3, 4))

    def wait_reported(address: str) -> None:
        wait_for(lambda: addresses(api) == {"InternalIP": address, "Hostname": NODE}, 30.0, agent.log_tail)
        wait_for(lambda: [address] in map(requested, api.get(REQUESTS)["items"]), 30.0, agent.log_tail)

    with machine_address(after):
        with machine_address(before):
            hosts.write_text(f"127.0.0.1 localhost\n{before} {NODE}\n")
            agent.start()
            wait_reported(before)
            hosts.write_text(f"127.0.0.1 localhost\n{after} {NODE}\n")
        wait_reported(after)
        assert agent.stop() == 0


def test_the_serving_certificate_follows_the_addresses(
    agent_with: Callable[..., AgentProcess], api: KubeApi, apiserver: EnvTest
) -> None:
    agent = agent_with("cloud-address", "--cloud-provider", "external", serverTLSBootstrap=True)
    agent.start()
    wait_for(lambda: addresses(api) == {"Hostname": NODE}, 30.0, agent.log_tail)

    def become(address: str) -> None:
        reported = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": NODE}]
        path = f"/api/v1/nodes/{NODE}/status"
        api.merge(path, {"status": {"addresses": reported}})

    assert not api.get(REQUESTS)["items"], "without an address there is nothing to request"
    for address in ("192.0.2.10", "192.0.2.11"):
        become(address)
        request = wait_for_request(api, _SERVING, agent)
        assert requested(request) == [address]
        sign(api, apiserver, request)
        path = agent.home / "pki" / "kubelet-server-current.pem"
        wait_for(lambda: path.exists() and address in _names(path.read_bytes()), 30.0, agent.log_tail)  # noqa: B023
    assert agent.stop() == 0


def _names(pem: bytes) -> list[str]:
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(each) for each in found.value.get_values_for_type(x509.IPAddress)]
