"""The type of a fault: a line of the table."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from benchmarks.faults.model import Group, Restarts, Subject
from benchmarks.faults.node import Node

EVERYWHERE = frozenset(Subject)
OUR_AGENT = frozenset((Subject.OURS, Subject.CONTAINERD))
OUR_RUNTIME = frozenset((Subject.OURS,))


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of the table."""

    name: str
    what: str
    """Effect of the fault on the node, as a clause for the report."""
    act: Callable[[Node], AbstractContextManager[None]]
    """Injects on entry and heals on exit. Blocking."""
    group: Group
    restarts: Restarts = Restarts.NONE
    subjects: frozenset[Subject] = EVERYWHERE
    """The subjects that it applies to."""
    limit: float = 60.0
    """Seconds from the healing to the desired state; a pod that is not restored by then is lost."""
    hold: float = 1.0
    """Seconds between injection and healing, times a factor of the run."""
    bystanders: bool = False
    """Whether another pod must start during the fault; the fault lasts until it has."""

    @property
    def in_cluster(self) -> bool:
        """Whether the node has an API server."""
        return self.group is Group.API
