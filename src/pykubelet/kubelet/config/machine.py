"""What the agent asks the machine before it starts: its name and its own addresses."""

import ipaddress
import socket
from collections.abc import Sequence

from pykubelet.base.errors import Invalid

# Documentation addresses (RFC 5737, RFC 3849): connecting a datagram socket sends nothing, it only asks the
# routing table which address would be used towards the world.
_PROBES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def node_name(override: str) -> str:
    """The node's name: the override or the host name, in lower case as the reference has it."""
    name = (override or socket.gethostname()).strip().lower()
    if not name:
        raise Invalid("the host has no name; give one with --node-name")
    return name


def node_ips(given: Sequence[str]) -> tuple[str, ...]:
    """The node's addresses, primary first: those given, else those used towards the default route.

    A machine without any route has its loopback address only. Invalid: a given one is no address.
    """
    for text in given:
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            raise Invalid(f"--node-ip {text!r} is not an IP address") from error
    if given:
        return tuple(given)
    found = [address for family, target in _PROBES if (address := _source_address(family, target))]
    return tuple(found) or ("127.0.0.1",)


def _source_address(family: socket.AddressFamily, target: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
