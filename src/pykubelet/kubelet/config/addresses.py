"""The node's addresses: which of those that were given, looked up or found on the machine is the node's. Pure.

Source: the Go kubelet's ``NodeAddress`` (``pkg/kubelet/nodestatus``) and ``validateNodeIP``.
"""

import ipaddress
from collections.abc import Collection, Sequence

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.types.ip_addresses import is_ip


class AddressSources(Struct, frozen=True):
    """Possible sources of an address of the node."""

    name: str
    """The node's name."""
    given: tuple[str, ...] = ()
    """The addresses of ``--node-ip``; ``0.0.0.0`` and ``::`` select the preferred family only."""
    local: frozenset[str] | None = None
    """The addresses of the machine's network interfaces; None: unknown."""
    looked_up: tuple[str, ...] | None = ()
    """The addresses that name service and ``/etc/hosts`` have for the node's name; None: no answer."""
    default: tuple[str, ...] = ()
    """The source addresses of the default routes."""


def choose_addresses(sources: AddressSources, before: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the node's addresses, primary first: one, or one of each family.

    ``before`` are the addresses chosen last; they stay while the name service gives no answer and the machine still has
    them, so that its outage does not change the node. Raises Invalid if there is no usable address now.
    """
    specified = specified_addresses(sources.given)
    for ip in specified:
        if fault := address_fault(ip, sources.local):
            raise Invalid(f"failed to validate nodeIP: {fault}; correct --node-ip, or add the address to the machine")
    if specified:
        return specified
    if is_ip(sources.name):
        return (sources.name,)
    prefer_ipv6 = any(":" in ip for ip in sources.given)
    if sources.looked_up is None and before and not any(address_fault(ip, sources.local) for ip in before):
        return tuple(before)
    for candidates in (sources.looked_up or (), sources.default):
        usable = [ip for ip in candidates if not address_fault(ip, sources.local)]
        if usable:
            return (min(usable, key=lambda ip: (":" in ip) != prefer_ipv6),)
    raise Invalid(
        f"can't get ip address of node {sources.name}: its name has no address of this machine, and there is no "
        "default route; give the address with --node-ip"
    )


def specified_addresses(given: Sequence[str]) -> tuple[str, ...]:
    """Return the addresses without ``0.0.0.0`` and ``::``."""
    return tuple(ip for ip in given if not ipaddress.ip_address(ip).is_unspecified)


def address_fault(ip: str, local: Collection[str] | None) -> str | None:
    """Return why this cannot be a node's address; None: it can. ``local`` as in `AddressSources`."""
    address = ipaddress.ip_address(ip)
    if address.is_loopback:
        return f"{ip}: nodeIP can't be loopback address"
    if address.is_multicast:
        return f"{ip}: nodeIP can't be a multicast address"
    if address.is_link_local:
        return f"{ip}: nodeIP can't be a link-local unicast address"
    if address.is_unspecified:
        return f"{ip}: nodeIP can't be an all zeros address"
    if local is not None and str(address) not in local:
        return f'node IP: "{ip}" not found in the host\'s network interfaces'
    return None
