"""The links and firewall rules of the server's own network."""

import asyncio
import json
from collections.abc import Sequence

from pykubelet.base import proc
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.units import Seconds
from pykubelet.cli.reset.places import Places
from pykubelet.cli.reset.plan.firewall import Removal, removal_of

_CALL: Seconds = 30.0
_PROGRAMS = ("iptables", "ip6tables")


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
            for program, removal in self._removals().items()
            for text in (*(" ".join(rule[1:]) for rule in removal.rules), *(f"chain {name}" for name in removal.chains))
        ]

    def remove(self) -> None:
        for program, removal in self._removals().items():
            for rule in removal.rules:
                _nat(program, *rule)
            # All are emptied first: they jump to each other.
            for name in removal.chains:
                _nat(program, "-F", name)
            for name in removal.chains:
                _nat(program, "-X", name)

    def _removals(self) -> dict[str, Removal]:
        networks = self._places.networks()
        found = {}
        for program in _PROGRAMS if networks else ():
            try:
                found[program] = removal_of(_nat(program, "-S").splitlines(), networks)
            except NotFound:
                continue  # not installed, so that no plugin could use it
        return {program: removal for program, removal in found.items() if removal.rules or removal.chains}


def _nat(program: str, *arguments: str) -> str:
    return _run(program, "-w", "-t", "nat", *arguments)


def _run(*words: str) -> str:
    """Run a program and return its output. NotFound: it is not installed. Permanent, with its message: it failed."""
    try:
        return asyncio.run(proc.run(words, timeout=_CALL)).stdout.decode(errors="replace")
    except proc.ExitError as error:
        said = error.completed.stderr.decode(errors="replace").strip()
        raise Permanent(f"{' '.join(words)}: {said}") from error
