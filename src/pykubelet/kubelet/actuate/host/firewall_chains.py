"""Keeps the chains of the firewall that other components expect of a node's agent (``makeIPTablesUtilChains``).

``KUBE-IPTABLES-HINT`` in the table ``mangle`` tells them whether the node uses iptables-legacy or iptables-nft
(KEP-3178). ``KUBE-FIREWALL`` in the table ``filter`` drops packets from other hosts to 127.0.0.0/8, which the kernel
takes where something has set ``route_localnet`` (CVE-2020-8558); it never takes packets to ::1 from other hosts.
kube-proxy creates the same rule, so its words must not differ. Source: ``syncIPTablesRules`` of the Go kubelet.
"""

import logging
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.linux.iptables import IPV4, IPV6, Iptables

_log = logging.getLogger(__name__)
HINT: Final = "KUBE-IPTABLES-HINT"
FIREWALL: Final = "KUBE-FIREWALL"
_INTERVAL: Seconds = 60.0
_LOCALNET: Final = (
    *("-d", "127.0.0.0/8", "!", "-s", "127.0.0.0/8"),
    *("-m", "comment", "--comment", "block incoming localnet connections"),
    *("-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP"),
)
_Wanted = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A table, the arguments that look for a chain or rule, and those that create it."""
_HINT: Final[_Wanted] = ("mangle", ("-S", HINT), ("-N", HINT))
_FIREWALL: Final[tuple[_Wanted, ...]] = (
    ("filter", ("-S", FIREWALL), ("-N", FIREWALL)),
    ("filter", ("-C", FIREWALL, *_LOCALNET), ("-A", FIREWALL, *_LOCALNET)),
    ("filter", ("-C", "OUTPUT", "-j", FIREWALL), ("-I", "OUTPUT", "-j", FIREWALL)),
    ("filter", ("-C", "INPUT", "-j", FIREWALL), ("-I", "INPUT", "-j", FIREWALL)),
)
_WANTED: Final = {IPV4: (_HINT, *_FIREWALL), IPV6: (_HINT,)}


class FirewallChains:
    """Creates the chains and their rules, and again after the firewall was flushed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._iptables = Iptables()
        self._guard = Guard("firewall-chains", clock.monotonic)
        self._complete: dict[str, int | None] = {}
        """The kernel's generation of rules when a program's were last complete; by name."""

    async def run(self) -> None:
        """Look once a minute until cancelled. A program that is missing or fails is logged once, and tried again."""
        while True:
            for program in self._guard.due(_WANTED):
                with self._guard.item(program):
                    await self.ensure(program)
            await self._clock.sleep(_INTERVAL)

    async def ensure(self, program: str) -> None:
        """Create what is missing. Raises NotFound without the program, and Permanent if it fails."""
        generation = await self._iptables.generation(program)
        if generation is not None and generation == self._complete.get(program):
            return
        for table, look, create in _WANTED[program]:
            if await self._iptables.call(program, table, *look, check=False) != 0:
                await self._iptables.call(program, table, *create, check=True)
                _log.info("iptables: chain or rule created", extra={"program": program, "rule": " ".join(create)})
                generation = None  # it has changed: the next round looks again
        self._complete[program] = generation
