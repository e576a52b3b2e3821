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
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.proc import ExitError
from pykubelet.base.units import Seconds
from pykubelet.criserver.cni.network_types import Masquerade
from pykubelet.linux.iptables import IPV4, IPV6, Iptables

_log = logging.getLogger(__name__)
FRESH: Seconds = 60.0
"""A rule that was there is not looked for again within this time."""
_PROGRAMS = {4: (IPV4, "224.0.0.0/4"), 6: (IPV6, "ff00::/8")}
"""Programs by IP version, with the multicast addresses."""
_Rule = tuple[str, ...]
"""The table, and the arguments of iptables after the operation."""


class _Check(Struct, frozen=True):
    """A check of a network's rules."""

    at: Seconds
    generation: int | None
    """Of the kernel's rules before the check; None if it does not tell, or if rules are missing."""


class Firewall:
    """Creates the rules of networks, and remembers those checked recently.

    They are checked again once a minute, if the kernel has other rules than before. They are not removed when the
    server ends, because the pods keep running.
    """

    def __init__(self, clock: Clock, marks: Mapping[str, str]) -> None:
        self._clock = clock
        self._iptables = Iptables(marks)
        self._seen: dict[Masquerade, _Check] = {}
        self._open: set[str] = set()
        """Bridges without the rules for loopback addresses, of which a warning told."""
        self._lock = asyncio.Lock()

    async def ensure(self, wanted: Masquerade) -> None:
        """Ensure that the rules exist, unless they were checked recently.

        Raises Transient if the one for masquerading cannot be created. Without the others there is a warning.
        """
        async with self._lock:
            now = self._clock.monotonic()
            checked = self._seen.get(wanted)
            if checked is not None and now - checked.at < FRESH:
                return
            program, rules = _rules(wanted)
            generation = await self._iptables.generation(program) if checked is not None else None
            is_same = checked is not None and generation is not None and generation == checked.generation
            if not is_same and (checked is None or not await self._all_exist(program, rules)):
                await self._make(wanted.bridge, program, rules)
            lately = {rule: check for rule, check in self._seen.items() if now - check.at < 2 * FRESH}
            is_whole = wanted.bridge not in self._open
            self._seen = lately | {wanted: _Check(now, generation if is_whole else None)}

    async def _make(self, bridge: str, program: str, rules: Sequence[_Rule]) -> None:
        masquerade, *drop = rules
        try:
            await self._create(program, masquerade)
        except (NotFound, ExitError) as error:
            raise Transient(f"cannot masquerade pods of {bridge} to other networks: {error}") from error
        try:
            for rule in drop:
                await self._create(program, rule)
        except (NotFound, ExitError) as error:
            if bridge not in self._open:
                fields = {"bridge": bridge, "error": str(error)}
                _log.warning("pods can reach servers that listen on the node's loopback addresses", extra=fields)
            self._open.add(bridge)
        else:
            self._open.discard(bridge)

    async def _all_exist(self, program: str, rules: Iterable[_Rule]) -> bool:
        """Look for all rules in one go: this is done every minute."""
        tables = (f"*{table}\n-C {' '.join(map(_quoted, rule))}\nCOMMIT\n" for table, *rule in rules)
        return await self._iptables.restore(program, "".join(tables))

    async def _create(self, program: str, wanted: _Rule) -> None:
        """Create the rule if it does not exist."""
        table, *rule = wanted
        if (await self._iptables.call(program, table, "-C", *rule, check=False)) != 0:
            await self._iptables.call(program, table, "-A", *rule, check=True)


def _rules(wanted: Masquerade) -> tuple[str, list[_Rule]]:
    """Return the program, and the rules: first that for masquerading, then those for loopback addresses."""
    version = ipaddress.ip_network(wanted.subnet).version
    program, many = _PROGRAMS[version]
    comment = ("-m", "comment", "--comment", f"pods of {wanted.bridge}")
    source = ("-s", wanted.subnet, "!", "-d", many, "!", "-o", wanted.bridge)
    masquerade = ("nat", "POSTROUTING", *source, *comment, "-j", "MASQUERADE")
    # Before the addresses of answers are translated back: those go to 127.0.0.1, too, after that.
    begin = ("mangle", "PREROUTING", "-i", wanted.bridge)
    ends = ("-d", "-s") if version == 4 else ()  # the kernel takes no packets to ::1 from other hosts
    return program, [masquerade, *((*begin, end, "127.0.0.0/8", *comment, "-j", "DROP") for end in ends)]


def _quoted(argument: str) -> str:
    escaped = argument.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
