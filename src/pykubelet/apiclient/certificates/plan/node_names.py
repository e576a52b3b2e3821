"""The names that the serving certificate of a node has to contain."""

import ipaddress
from collections.abc import Iterable

from pykubelet.models.core_v1 import NodeAddress


def names_and_ips(addresses: Iterable[NodeAddress]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the DNS names and the IP addresses among a node's addresses, each sorted; source: upstream's template."""
    names, ips = set[str](), set[str]()
    for each in addresses:
        ip = _ip(each.address)
        if ip:
            if each.type in ("Hostname", "InternalIP", "ExternalIP"):
                ips.add(ip)
        elif each.address and each.type in ("Hostname", "InternalDNS", "ExternalDNS"):
            names.add(each.address)
    return tuple(sorted(names)), tuple(sorted(ips))


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""
