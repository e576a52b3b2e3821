"""The firewall rules of a network: masquerading, and the node's loopback addresses closed for pods.

One rule replaces the addresses of all pods of a network by the node's. The bridge plugin can do this too, with a chain
for each pod, which takes half of the time of its ADD and most of its DEL.

For ports of pods on 127.0.0.1 the portmap plugin sets ``route_localnet`` on the bridge. The kernel then takes packets
to loopback addresses from pods as well, which pods with NET_RAW can send, so that they would reach servers that listen
for programs of the node alone (CVE-2020-8558). Another rule drops them; the Go kubelet's is in its chain KUBE-FIREWALL.
A third one drops packets from loopback addresses other than 127.0.0.1, of which the kernel does not see then that they
are forged: servers may trust all of 127.0.0.0/8.
"""

import asyncio
import ipaddress
import logging
import os
from collections.abc import Mapping

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.proc import ExitError, run
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import Masquerade

_log = logging.getLogger(__name__)
_CALL: Seconds = 30.0
FRESH: Seconds = 60.0
"""A rule that was there is not looked for again within this time."""
_PROGRAMS = {4: ("iptables", "224.0.0.0/4"), 6: ("ip6tables", "ff00::/8")}
"""Programs by IP version, with the multicast addresses."""


class Firewall:
    """Creates the rules of networks, and remembers those checked recently.

    Rules are not removed when the server ends, because the pods keep running.
    """

    def __init__(self, clock: Clock, marks: Mapping[str, str]) -> None:
        self._clock = clock
        self._env = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), **marks}
        self._seen: dict[Masquerade, Seconds] = {}
        self._lock = asyncio.Lock()

    async def ensure(self, wanted: Masquerade) -> None:
        """Ensure that the rules exist, unless they were checked recently.

        Raises Transient if the one for masquerading cannot be created. Without the others there is a warning.
        """
        async with self._lock:
            now = self._clock.monotonic()
            if wanted in self._seen and now - self._seen[wanted] < FRESH:
                return
            version = ipaddress.ip_network(wanted.subnet).version
            program, many = _PROGRAMS[version]
            comment = ("-m", "comment", "--comment", f"pods of {wanted.bridge}")
            source = ("-s", wanted.subnet, "!", "-d", many, "!", "-o", wanted.bridge)
            rule = ("POSTROUTING", *source, *comment, "-j", "MASQUERADE")
            try:
                await self._create(program, "nat", *rule)
            except (NotFound, ExitError) as error:
                raise Transient(f"cannot masquerade pods of {wanted.bridge} to other networks: {error}") from error
            if version == 4:  # the kernel takes no packets to ::1 from other hosts
                await self._close_loopback(program, wanted.bridge, comment)
            lately = {rule: at for rule, at in self._seen.items() if now - at < FRESH}
            self._seen = lately | {wanted: now}

    async def _close_loopback(self, program: str, bridge: str, comment: tuple[str, ...]) -> None:
        # Before the addresses of answers are translated back: those go to 127.0.0.1, too, after that.
        try:
            for end in ("-d", "-s"):
                await self._create(
                    program, "mangle", "PREROUTING", "-i", bridge, end, "127.0.0.0/8", *comment, "-j", "DROP"
                )
        except (NotFound, ExitError) as error:
            fields = {"bridge": bridge, "error": str(error)}
            _log.warning("pods can reach servers that listen on the node's loopback addresses", extra=fields)

    async def _create(self, program: str, table: str, *rule: str) -> None:
        """Create the rule if it does not exist."""
        if (await self._call(program, table, "-C", *rule, check=False)) != 0:
            await self._call(program, table, "-A", *rule, check=True)

    async def _call(self, program: str, table: str, *arguments: str, check: bool) -> int:
        argv = [program, "-w", "-t", table, *arguments]
        return (await run(argv, timeout=_CALL, env=self._env, cwd="/", check=check)).returncode
