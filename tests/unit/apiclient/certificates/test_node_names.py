"""The names and addresses in the serving certificate of a node."""

import pytest

from pykubelet.apiclient.certificates.plan.node_names import names_and_ips
from pykubelet.models.core_v1 import NodeAddress


@pytest.mark.parametrize(
    ("addresses", "names", "ips"),
    [
        ("Hostname=n InternalIP=10.0.0.2 InternalIP=10.0.0.1", ("n",), ("10.0.0.1", "10.0.0.2")),
        ("Hostname=10.0.0.9 ExternalIP=192.0.2.1", (), ("10.0.0.9", "192.0.2.1")),
        ("InternalDNS=a.example ExternalDNS=b.example InternalIP=nonsense", ("a.example", "b.example"), ()),
    ],
)
def test_names_and_addresses_of_the_serving_certificate(
    addresses: str, names: tuple[str, ...], ips: tuple[str, ...]
) -> None:
    pairs = (each.split("=") for each in addresses.split())
    assert names_and_ips(NodeAddress(type=kind, address=address) for kind, address in pairs) == (names, ips)
