"""The parts of what an agent leaves on a machine, in the order of their removal."""

from collections.abc import Sequence
from typing import Protocol

from pykubelet.cli.reset.daemons import AgentPart, PodsPart, ServerPart
from pykubelet.cli.reset.files import CgroupsPart, FilesPart, MountsPart, PodLogsPart
from pykubelet.cli.reset.network import BridgesPart, FirewallPart, NamespacesPart
from pykubelet.cli.reset.places import Places


class Part(Protocol):
    """A kind of leftover, with its removal."""

    def find(self) -> Sequence[str]:
        """Return what is there now, as it is shown."""
        ...

    def remove(self) -> None:
        """Remove all of it. Raises the errors of ``base.errors``, which name what could not be removed."""
        ...


def parts_of(places: Places) -> tuple[Part, ...]:
    """Return all parts. Pods go through the runtime, so that their networks are taken down as CNI wants it."""
    logs = PodLogsPart(places)
    return (
        AgentPart(places),
        PodsPart(places, logs.note),
        ServerPart(places),
        CgroupsPart(places),
        NamespacesPart(places),
        MountsPart(places),
        BridgesPart(places),
        FirewallPart(places),
        logs,
        FilesPart(places),
    )
