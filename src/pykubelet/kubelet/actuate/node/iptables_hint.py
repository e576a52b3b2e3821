"""Keeps the chain by which other components tell whether the node uses iptables-legacy or iptables-nft.

They look for ``KUBE-IPTABLES-HINT`` in the table ``mangle`` of both. Source: KEP-3178.
"""

import logging
import os
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.proc import run
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
CHAIN: Final = "KUBE-IPTABLES-HINT"
_PROGRAMS: Final = ("iptables", "ip6tables")
_INTERVAL: Seconds = 60.0
_CALL: Seconds = 30.0


class IptablesHint:
    """Creates the chain for IPv4 and IPv6, and again after the firewall was flushed (``makeIPTablesUtilChains``)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")}
        self._guard = Guard("iptables-hint", clock.monotonic)

    async def run(self) -> None:
        """Look once a minute until cancelled. A program that is missing or fails is logged once, and tried again."""
        while True:
            for program in self._guard.due(_PROGRAMS):
                with self._guard.item(program):
                    await self.ensure(program)
            await self._clock.sleep(_INTERVAL)

    async def ensure(self, program: str) -> None:
        """Create the chain if it is missing. Raises NotFound without the program, and Permanent if it fails."""
        if (await self._call(program, "-S", CHAIN, check=False)) != 0:
            await self._call(program, "-N", CHAIN, check=True)
            _log.info("iptables: chain created", extra={"program": program, "chain": CHAIN})

    async def _call(self, program: str, *arguments: str, check: bool) -> int:
        argv = [program, "-w", "5", "-t", "mangle", *arguments]
        return (await run(argv, timeout=_CALL, env=self._env, cwd="/", check=check)).returncode
