"""Compare the actual state of a node with the desired state. Pure.

The sources are the runtime's lists, the pods that the agent reports, and the files that every container writes when
its program begins, which are correct even if agent and runtime are wrong.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.faults.model import Restarts, TryResult

VICTIM = "victim"
"""The kind of the pod that a fault may strike."""


class Goal(StrEnum):
    """Desired behavior of a pod."""

    RUN = "run"
    END = "end"
    """The pod's containers run once, to completion."""


@dataclass(frozen=True, slots=True)
class WantedPod:
    """One desired pod."""

    containers: tuple[str, ...]
    goal: Goal = Goal.RUN
    restarts: bool = True
    """Whether its restart policy restarts a killed container."""

    @property
    def ends(self) -> bool:
        return self.goal is Goal.END


@dataclass(frozen=True, slots=True)
class Row:
    """A container in the runtime's list."""

    pod: str
    name: str
    id: str
    attempt: int
    running: bool


@dataclass(frozen=True, slots=True)
class Status:
    """A pod as reported by the agent."""

    phase: str
    ready: bool


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """The actual state of the node at one moment."""

    sandboxes: Counter[str] = field(default_factory=Counter)
    """Number of ready sandboxes by pod."""
    stopped: Counter[str] = field(default_factory=Counter)
    """Number of sandboxes that are not ready, by pod."""
    rows: tuple[Row, ...] = ()
    statuses: Mapping[str, Status] = field(default_factory=dict)
    runs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of program starts by pod and container."""

    def current(self, pod: str, name: str) -> Row | None:
        """The last attempt of a container."""
        rows = [row for row in self.rows if (row.pod, row.name) == (pod, name)]
        return max(rows, key=lambda row: row.attempt, default=None)

    def pods(self, ended: bool) -> set[str]:
        """All pods of the runtime and of the agent. ``ended``: also those of which nothing runs or is ready."""
        running = {*self.sandboxes, *(row.pod for row in self.rows if row.running or ended), *self.statuses}
        return running | self.stopped.keys() if ended else running


def unsettled(
    wanted: Mapping[str, WantedPod], seen: ObservedNode, restarts: Restarts, *, collects_later: bool = False
) -> list[str]:
    """The differences from the desired state; empty if there are none.

    ``collects_later``: ended containers and sandboxes of removed pods may stay until the next garbage collection.
    """
    found = [f"{pod}: not wanted any more" for pod in sorted(seen.pods(ended=not collects_later) - wanted.keys())]
    for pod, want in wanted.items():
        found += _unsettled_pod(pod, want, seen, restarts)
    return found


def _unsettled_pod(pod: str, want: WantedPod, seen: ObservedNode, restarts: Restarts) -> list[str]:
    status = seen.statuses.get(pod)
    if status is None:
        return [f"{pod}: the agent does not have it"]
    # A container that must not be restarted has ended for good when the fault killed it.
    may_end = want.ends or (not want.restarts and _explained(pod, restarts))
    if may_end and status.phase in ("Succeeded", "Failed"):
        running = [row.name for row in seen.rows if row.pod == pod and row.running]
        return [f"{pod}: {status.phase}, but {name} runs" for name in running]
    if want.ends:
        return [f"{pod}: {status.phase}"]
    found = [f"{pod}/{name}: not running" for name in want.containers if not _runs(seen, pod, name)]
    if not status.ready or status.phase != "Running":
        found.append(f"{pod}: {status.phase}, not ready")
    if seen.sandboxes[pod] != 1:
        found.append(f"{pod}: {seen.sandboxes[pod]} ready sandboxes")
    return found


def _runs(seen: ObservedNode, pod: str, name: str) -> bool:
    # A program that has begun has recorded it; the runtime may report it a moment sooner.
    row = seen.current(pod, name)
    return row is not None and row.running and seen.runs.get((pod, name), 0) > 0


def doubles(seen: ObservedNode) -> list[str]:
    """The pods and containers that run twice at this moment."""
    running = Counter(f"{row.pod}/{row.name}" for row in seen.rows if row.running)
    found = [f"{name}: {count} containers run" for name, count in running.items() if count > 1]
    return found + [f"{pod}: {count} ready sandboxes" for pod, count in seen.sandboxes.items() if count > 1]


def compare(
    before: ObservedNode, after: ObservedNode, wanted: Mapping[str, WantedPod], restarts: Restarts
) -> TryResult:
    """Compare the pods before and after a fault: duplicates and restarts without cause; losses are judged elsewhere."""
    verdict = TryResult()
    for pod, want in wanted.items():
        for name in want.containers:
            old, new = before.current(pod, name), after.current(pod, name)
            began = after.runs.get((pod, name), 0) - before.runs.get((pod, name), 0)
            if old is None or new is None:
                allowed = 0 if old is not None else 1 + (new.attempt if new is not None else 0)
            else:
                allowed = new.attempt - old.attempt
                if old.id != new.id and (want.ends or not _explained(pod, restarts)):
                    verdict.restarted.append(f"{pod}/{name}: attempt {old.attempt} became {new.attempt}")
            if began > allowed:
                verdict.duplicated.append(f"{pod}/{name}: began {began} times, {allowed} known to the agent")
    return verdict


def _explained(pod: str, restarts: Restarts) -> bool:
    return restarts is Restarts.ALL or (restarts is Restarts.VICTIM and pod.startswith(VICTIM))
