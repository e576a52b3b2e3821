"""The plan of a run: which parts are measured, how often and how long. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """The parts of a run, selected by ``--only``."""

    START = "start"
    RESTART = "restart"
    INIT = "init"
    IDLE = "idle"
    CRI = "cri"
    IMAGES = "images"
    PULLS = "pulls"
    API = "api"
    CLI = "cli"
    PODMAN = "podman"


@dataclass(frozen=True, slots=True)
class Plan:
    """The full plan; it takes half an hour with a peer."""

    parts: frozenset[Part] = frozenset(Part)
    one_at_a_time: int = 20
    """Pods started one after the other, of each kind."""
    at_once: tuple[int, ...] = (30, 100)
    cri_rounds: int = 3
    """Rounds of concurrent pods, alternating between the runtimes; their number is the first of ``at_once``."""
    api_rounds: int = 2
    """Rounds in which each agent in turn is the node of the API server."""
    api_pods: int = 8
    """Pods of each kind, started and deleted one after the other in such a round."""
    restarts: int = 10
    inits: int = 5
    pulls: int = 5
    """Pulls of each kind and compression."""
    commands: int = 10
    """Pods that are applied, and runs of each other command."""
    played: int = 10
    """Pods of each kind that ``podman kube play`` and ``apply`` start in turn."""
    played_at_once: int = 20
    idle_pods: tuple[int, ...] = (0, 10, 100)
    """Numbers of idle pods, ascending; the last one is also measured without events."""
    settle_seconds: float = 8.0
    """Between the last start and the measuring of idle use."""
    short_seconds: float = 20.0
    """Length of the idle measurements but the last."""
    idle_seconds: float = 60.0


QUICK = Plan(
    one_at_a_time=5,
    at_once=(10,),
    cri_rounds=1,
    api_rounds=1,
    api_pods=3,
    restarts=3,
    inits=2,
    pulls=2,
    commands=3,
    played=3,
    played_at_once=5,
    idle_pods=(0, 10),
    settle_seconds=3.0,
    short_seconds=5.0,
    idle_seconds=10.0,
)
"""A plan that takes a minute; it omits the figures of 30 and 100 pods."""
