"""Client and serving certificates of a node: requests by a bootstrap token, and renewal."""

import base64
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from pykubelet.testing.agent import AgentProcess, wait_for
from pykubelet.testing.envtest import EnvTest
from pykubelet.testing.kubeapi import Json, KubeApi
from pykubelet.testing.patience import PATIENCE
from tests.cluster.certificate_requests import REQUESTS, pending, sign, wait_for_request
from tests.cluster.cluster_node import NODE

pytestmark = [pytest.mark.root, pytest.mark.runtime]
_SHORT = timedelta(seconds=20 * PATIENCE)
_CLIENT, _SERVING = "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"


def refuse_until_bootstrap(api: KubeApi, agent: AgentProcess) -> Json:
    """Deny what the node itself requests for its client; return the first request of its bootstrap token."""
    found: list[Json] = []

    def there() -> bool:
        request = pending(api, _CLIENT)
        if request is None:
            return False
        if request["spec"]["username"] != f"system:node:{NODE}":
            found.append(request)
            return True
        condition = {"type": "Denied", "status": "True", "reason": "Test", "message": "by the test"}
        path = f"{REQUESTS}/{request['metadata']['name']}/approval"
        api.call("PUT", path, {**request, "status": {"conditions": [condition]}})
        return False

    wait_for(there, 60.0, agent.log_tail)
    return found[0]


@contextmanager
def allowed_to_bootstrap(api: KubeApi) -> Iterator[None]:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "bootstrap"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "system:node-bootstrapper"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:bootstrappers"}],
    }
    api.create(path, binding)
    try:
        yield
    finally:
        api.delete(f"{path}/bootstrap")


def subject(path: Path) -> str:
    return x509.load_pem_x509_certificate(path.read_bytes()).subject.rfc4514_string()


def shown(agent: AgentProcess) -> x509.Certificate:
    """The serving certificate of the kubelet API server."""
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", agent.node_port)).encode())


def wait_alive(api: KubeApi, agent: AgentProcess) -> None:
    """Mark the node as lost, as the node lifecycle controller does, and wait until it is ready again."""
    lost = {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}
    api.strategic(f"/api/v1/nodes/{NODE}/status", {"status": lost})
    wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)


def test_a_node_joins_by_a_token_and_renews_its_certificates(
    agent_with: Callable[..., AgentProcess], api: KubeApi, apiserver: EnvTest, node_address: str, tmp_path: Path
) -> None:
    bootstrap = apiserver.kubeconfig("system:bootstrap:envtst")
    flags = ["--kubeconfig", str(tmp_path / "kubelet.conf"), "--bootstrap-kubeconfig", str(bootstrap)]
    agent = agent_with("join", *flags, "--node-ip", node_address, rotateCertificates=True, serverTLSBootstrap=True)
    with allowed_to_bootstrap(api):
        agent.start(wait=False)
        first = wait_for_request(api, _CLIENT, agent)
        assert first["spec"]["username"] == "system:bootstrap:envtst"
        assert set(first["spec"]["usages"]) == {"digital signature", "client auth"}

        # An agent that is restarted before the request is signed waits for the same certificate.
        agent.kill()
        agent.start(wait=False)
        wait_for(lambda: "certificate request exists already" in agent.log_tail(), 30.0, agent.log_tail)
        assert len(api.get(REQUESTS)["items"]) == 1
        sign(api, apiserver, first, timedelta(seconds=30 * PATIENCE))
    agent.wait_ready()
    current = agent.home / "pki" / "kubelet-client-current.pem"
    assert current.is_symlink() and current.stat().st_mode & 0o777 == 0o600
    assert subject(current) == f"CN=system:node:{NODE},O=system:nodes"
    wait_for(lambda: api.node_condition(NODE).get("status") == "True", 30.0, agent.log_tail)

    # The node itself requests the serving certificate; until it is issued the server uses a self-signed one.
    serving = wait_for_request(api, _SERVING, agent)
    assert serving["spec"]["username"] == f"system:node:{NODE}"
    assert set(serving["spec"]["usages"]) == {"digital signature", "server auth"}
    authority = apiserver.authority.certificate.subject
    assert shown(agent).issuer != authority
    sign(api, apiserver, serving, timedelta(seconds=15 * PATIENCE))
    wait_for(lambda: shown(agent).issuer == authority, 20.0, agent.log_tail)
    first_shown = shown(agent)
    names = first_shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NODE]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == [node_address]

    # Both have a short lifetime and are renewed before they expire, the serving certificate first.
    sign(api, apiserver, wait_for_request(api, _SERVING, agent))
    wait_for(lambda: shown(agent).serial_number != first_shown.serial_number, 20.0, agent.log_tail)
    assert shown(agent).issuer == authority
    before = current.resolve()
    second = wait_for_request(api, _CLIENT, agent)
    assert second["spec"]["username"] == f"system:node:{NODE}"
    sign(api, apiserver, second, timedelta(seconds=8 * PATIENCE))
    wait_for(lambda: current.resolve() != before, 20.0, agent.log_tail)

    # A node whose certificate was not renewed in time gets one by its token, without a restart.
    before = current.resolve()
    expires = x509.load_pem_x509_certificate(before.read_bytes()).not_valid_after_utc.timestamp()
    with allowed_to_bootstrap(api):
        third = refuse_until_bootstrap(api, agent)
        assert time.time() >= expires
        sign(api, apiserver, third)
        wait_for(lambda: current.resolve() != before, 20.0, agent.log_tail)
    wait_alive(api, agent)
    assert agent.stop() == 0


def test_node_with_an_embedded_certificate_goes_on_after_its_expiry(
    agent_with: Callable[..., AgentProcess], api: KubeApi, apiserver: EnvTest, node_address: str
) -> None:
    key, certificate = apiserver.authority.client(f"system:node:{NODE}", "system:nodes", _SHORT)
    expires = x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
    data = {"client-certificate-data": certificate, "client-key-data": key}
    user = {name: base64.b64encode(pem).decode() for name, pem in data.items()}
    kubeconfig = apiserver.write_kubeconfig(apiserver.home / "embedded.conf", user)
    agent = agent_with("embed", "--kubeconfig", str(kubeconfig), "--node-ip", node_address, rotateCertificates=True)
    agent.start()
    request = wait_for_request(api, _CLIENT, agent)
    assert request["spec"]["username"] == f"system:node:{NODE}"
    sign(api, apiserver, request)
    wait_for(lambda: time.time() > expires, _SHORT.total_seconds(), agent.log_tail)
    wait_alive(api, agent)

    # The kubeconfig still has the old one at the next start.
    assert agent.stop() == 0
    agent.start()
    wait_alive(api, agent)
    assert agent.stop() == 0
