"""Masquerading: one firewall rule replaces the addresses of all pods of a network by the node's.

The bridge plugin can do this too, with a chain for each pod, which takes half of the time of its ADD and most of its
DEL.
"""

import asyncio
import ipaddress
import os
from collections.abc import Mapping

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.proc import ExitError, run
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import Masquerade

_CALL: Seconds = 30.0
_FRESH: Seconds = 300.0
_PROGRAMS = {4: ("iptables", "224.0.0.0/4"), 6: ("ip6tables", "ff00::/8")}
"""Programs by IP version, with the multicast addresses."""


class Firewall:
    """Creates masquerade rules, and remembers those checked recently.

    A rule is not removed when the server ends, because the pods keep running.
    """

    def __init__(self, clock: Clock, marks: Mapping[str, str]) -> None:
        self._clock = clock
        self._env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), **marks}
        self._seen: dict[Masquerade, Seconds] = {}
        self._lock = asyncio.Lock()

    async def ensure(self, wanted: Masquerade) -> None:
        """Ensure that the rule exists, unless it was checked recently. Raises Transient if it cannot be created."""
        async with self._lock:
            now = self._clock.monotonic()
            if wanted in self._seen and now - self._seen[wanted] < _FRESH:
                return
            program, many = _PROGRAMS[ipaddress.ip_network(wanted.subnet).version]
            comment = ("-m", "comment", "--comment", f"pods of {wanted.bridge}")
            source = ("-s", wanted.subnet, "!", "-d", many, "!", "-o", wanted.bridge)
            rule = ("POSTROUTING", *source, *comment, "-j", "MASQUERADE")
            try:
                if (await self._call(program, "-C", *rule, check=False)) != 0:
                    await self._call(program, "-A", *rule, check=True)
            except (NotFound, ExitError) as error:
                raise Transient(f"cannot masquerade pods of {wanted.bridge} to other networks: {error}") from error
            lately = {rule: at for rule, at in self._seen.items() if now - at < _FRESH}
            self._seen = lately | {wanted: now}

    async def _call(self, program: str, *arguments: str, check: bool) -> int:
        argv = [program, "-w", "-t", "nat", *arguments]
        return (await run(argv, timeout=_CALL, env=self._env, cwd="/", check=check)).returncode
