"""The ports of the agent's servers: which of them exclude each other, and which can be tried out. Pure."""

from collections.abc import Collection, Iterable
from itertools import combinations
from typing import Final

from msgspec import Struct

ANY_ADDRESS: Final = frozenset(("", "0.0.0.0", "::"))
"""The addresses that stand for all of the machine."""


class Port(Struct, frozen=True):
    """A port of a server."""

    field: str
    """The field of the configuration that names it."""
    address: str
    number: int
    """0: none."""


def port_clash(ports: Iterable[Port]) -> str | None:
    """Return what is wrong if two servers have the same port, since the second could not listen; None: nothing is."""
    for one, other in combinations([port for port in ports if port.number], 2):
        addresses = {one.address, other.address}
        if one.number == other.number and (len(addresses) == 1 or addresses & ANY_ADDRESS):
            return f"{other.field}: {other.number} is the port of {one.field}, too; choose another port"
    return None


def ports_to_try(wanted: Iterable[Port], taken: Collection[Port]) -> list[Port]:
    """Return the ports on which to listen for a moment, so that a port of another program is found.

    Those that the agent has ``taken`` itself are left out: one may be kept on another address, which cannot be tried
    out while the agent listens.
    """
    own = {port.number for port in taken}
    return [port for port in wanted if port.number and port.number not in own]
