"""The node's name and addresses, read from the flags and the machine."""

import ipaddress
import socket
from collections.abc import Sequence

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.config.addresses import specified_addresses

# Documentation addresses (RFC 5737, RFC 3849): connecting a datagram socket sends nothing, but selects the source
# address of the default route.
_PROBES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def node_name(override: str) -> str:
    """Return the node's name: the override or the host name, in lower case as upstream. Raises Invalid."""
    name = (override or socket.gethostname()).strip().lower()
    if not name:
        raise Invalid("the host has no name; give one with --node-name")
    return name


def given_ips(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses of ``--node-ip``, repeated or separated by commas: one, or one of each family.

    ``0.0.0.0`` or ``::`` alone selects the preferred family of the address that is found; an empty flag counts as not
    given. Raises Invalid.
    """
    texts = [part.strip() for flag in flags if flag for part in flag.split(",")]
    for text in texts:
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            raise Invalid(f"--node-ip {text!r} is not an IP address") from error
    families = [":" in text for text in texts]
    if len(families) > len(set(families)):
        raise Invalid(f"--node-ip {','.join(texts)}: give one address, or one of each family")
    addresses = tuple(str(ipaddress.ip_address(text)) for text in texts)
    if len(addresses) > 1 and specified_addresses(addresses) != addresses:
        raise Invalid(f"--node-ip {','.join(texts)}: 0.0.0.0 and :: cannot be one of two addresses")
    return addresses


def node_ips(given: Sequence[str]) -> tuple[str, ...]:
    """Return the node's addresses at the start, primary first: the given ones, else those of the default route.

    Of the latter IPv4 if available, or IPv6 if ``::`` was given and it is available; empty on a machine without a
    route. While the agent runs, ``actuate/host/addresses.py`` follows the changes.
    """
    specified = specified_addresses(given)
    if specified:
        return specified
    found = route_addresses()
    return tuple(sorted(found, key=lambda ip: (":" in ip) != any(":" in each for each in given))[:1])


def route_addresses() -> tuple[str, ...]:
    """Return the source addresses of the default routes, one of each family at most."""
    return tuple(address for family, target in _PROBES if (address := _source_address(family, target)))


def _source_address(family: socket.AddressFamily, target: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
