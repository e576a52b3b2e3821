"""The certificates of a node, from its settings and addresses."""

from pathlib import Path

import pytest

from pykubelet.apiclient import ApiClient, ClusterConfig, User
from pykubelet.apiclient.certificates import RenewalObserver
from pykubelet.apiclient.certificates.certificate_types import NoRenewalObserver
from pykubelet.kubelet.compose.cluster.certificates import NodeCertificates
from pykubelet.kubelet.config import ClusterSettings, KubeletConfiguration, Settings
from pykubelet.testing.clock import VirtualClock


def observer(which: str) -> RenewalObserver:
    assert which in ("client", "server")
    return NoRenewalObserver()


@pytest.mark.parametrize(
    ("user", "parts"),
    [
        (User(), ["client-certificate", "client-certificate-lost", "serving-certificate"]),
        (User(token="t"), ["client-certificate", "serving-certificate"]),
    ],
)
async def test_only_an_agent_that_has_nothing_else_ends_without_a_client_certificate(
    tmp_path: Path, user: User, parts: list[str]
) -> None:
    config = KubeletConfiguration(rotate_certificates=True, server_tls_bootstrap=True)
    cluster = ClusterSettings(tmp_path / "kubeconfig", cert_dir=tmp_path / "pki")
    settings = Settings("n", config, "unix:///none", cluster=cluster)
    server, clock = ClusterConfig("https://127.0.0.1:1", user=user), VirtualClock()
    client = ApiClient(server, clock)
    observers = {which: observer(which) for which in ("client", "server")}
    made = NodeCertificates(settings=settings, client=client, server=server, observers=observers, clock=clock)
    found = made.parts()
    assert sorted(found) == parts and made.serving() is None
    for coroutine in found.values():
        coroutine.close()
    await client.close()
