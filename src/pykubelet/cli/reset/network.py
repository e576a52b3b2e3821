"""The network namespaces of pods, and the links and firewall rules of the server's own network."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path

from pykubelet.base import proc
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.units import Seconds
from pykubelet.cli.reset.places import Places
from pykubelet.cli.reset.plan.firewall import Removal, removal_of
from pykubelet.criserver.netns import pinned_networks
from pykubelet.linux.namespaces import unpin

_CALL: Seconds = 30.0
_TABLES = (("iptables", "nat"), ("ip6tables", "nat"), ("iptables", "mangle"))
"""Programs, and the tables in which they have rules."""


class NamespacesPart:
    """The network namespaces that the server has pinned in the directory that it shares with other programs."""

    def __init__(self, places: Places) -> None:
        self._server = None if places.endpoint else places.server

    def find(self) -> Sequence[str]:
        return [f"network namespace: {path}" for path in self._pinned()]

    def remove(self) -> None:
        for path in self._pinned():
            unpin(str(path))

    def _pinned(self) -> list[Path]:
        if self._server is None:
            return []
        own, found = self._server.namespaces, pinned_networks(self._server.namespaces).values()
        return sorted(path for path in found if not path.is_relative_to(own) and os.path.lexists(path))


class BridgesPart:
    """The bridge of the server's own network; the links of pods have gone with their network namespaces."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def find(self) -> Sequence[str]:
        return [f"bridge: {name}" for name in self._bridges()]

    def remove(self) -> None:
        for name in self._bridges():
            _run("ip", "link", "delete", name)

    def _bridges(self) -> list[str]:
        networks = self._places.networks()
        if not networks:
            return []
        links = json.loads(_run("ip", "-json", "link", "show", "type", "bridge") or "[]")
        return sorted(networks & {str(link.get("ifname", "")) for link in links})


class FirewallPart:
    """The rules and chains that the server and the CNI plugins have created for the server's own network."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def find(self) -> Sequence[str]:
        return [
            f"{program}: {text}"
            for (program, _), removal in self._removals().items()
            for text in (*(" ".join(rule[1:]) for rule in removal.rules), *(f"chain {name}" for name in removal.chains))
        ]

    def remove(self) -> None:
        for (program, table), removal in self._removals().items():
            for rule in removal.rules:
                _change(program, table, *rule)
            # All are emptied first: they jump to each other.
            for name in removal.chains:
                _change(program, table, "-F", name)
            for name in removal.chains:
                _change(program, table, "-X", name)

    def _removals(self) -> dict[tuple[str, str], Removal]:
        networks = self._places.networks()
        found = {}
        for program, table in _TABLES if networks else ():
            try:
                found[program, table] = removal_of(_change(program, table, "-S").splitlines(), networks)
            except NotFound:
                continue  # not installed, so that no plugin could use it
        return {place: removal for place, removal in found.items() if removal.rules or removal.chains}


def _change(program: str, table: str, *arguments: str) -> str:
    return _run(program, "-w", "-t", table, *arguments)


def _run(*words: str) -> str:
    """Run a program and return its output. NotFound: it is not installed. Permanent, with its message: it failed."""
    try:
        return asyncio.run(proc.run(words, timeout=_CALL)).stdout.decode(errors="replace")
    except proc.ExitError as error:
        said = error.completed.stderr.decode(errors="replace").strip()
        raise Permanent(f"{' '.join(words)}: {said}") from error
