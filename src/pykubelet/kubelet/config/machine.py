"""The node's name and addresses, read from the flags and the machine before the agent starts."""

import ipaddress
import socket
from collections.abc import Sequence

from pykubelet.base.errors import Invalid

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

    Unspecified ones (``0.0.0.0``, ``::``), which only select the primary family, are left out. Raises Invalid.
    """
    return tuple(each for each in _parsed(flags) if not ipaddress.ip_address(each).is_unspecified)


def node_ips(flags: Sequence[str]) -> tuple[str, ...]:
    """Return the node's addresses, primary first: those of the flags, else the source address of the default route.

    The latter is IPv4 if available, or IPv6 if ``::`` was given and it is available. A machine without a route has
    only its loopback address. Raises Invalid.
    """
    given = given_ips(flags)
    if given:
        return given
    probes = reversed(_PROBES) if any(":" in each for each in _parsed(flags)) else _PROBES
    found = (address for family, target in probes if (address := _source_address(family, target)))
    return (next(found, "127.0.0.1"),)


def _parsed(flags: Sequence[str]) -> list[str]:
    texts = [part.strip() for flag in flags for part in flag.split(",")]
    for text in texts:
        try:
            ipaddress.ip_address(text)
        except ValueError as error:
            raise Invalid(f"--node-ip {text!r} is not an IP address") from error
    families = [":" in text for text in texts]
    if len(families) > len(set(families)):
        raise Invalid(f"--node-ip {','.join(texts)}: give one address, or one of each family")
    return texts


def _source_address(family: socket.AddressFamily, target: str) -> str:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""
