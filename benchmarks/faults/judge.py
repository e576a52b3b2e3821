"""Compares what a node runs with what is wanted of it. Pure.

The witnesses are the runtime's own lists, the agent's view of its pods, and the notes that every container writes when
its program begins, which tell the truth whatever agent and runtime believe.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from benchmarks.faults.model import Restarts, Try

VICTIM = "victim"
"""The kind of the pod that a fault may strike."""


class Goal(StrEnum):
    """What a pod is to do."""

    RUN = "run"
    END = "end"
    """Its containers run once, to their end."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One pod that is to be there."""

    containers: tuple[str, ...]
    goal: Goal = Goal.RUN
    restarts: bool = True
    """Whether its policy lets a container that was killed run again."""

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
    """A pod as the agent shows it."""

    phase: str
    ready: bool


@dataclass(frozen=True, slots=True)
class Seen:
    """The node at one moment."""

    sandboxes: Counter[str] = field(default_factory=Counter)
    """Ready ones, by pod."""
    stopped: Counter[str] = field(default_factory=Counter)
    """The others."""
    rows: tuple[Row, ...] = ()
    statuses: Mapping[str, Status] = field(default_factory=dict)
    runs: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How often the program of a pod's container has begun."""

    def current(self, pod: str, name: str) -> Row | None:
        """The last attempt of a container."""
        rows = [row for row in self.rows if (row.pod, row.name) == (pod, name)]
        return max(rows, key=lambda row: row.attempt, default=None)

    def pods(self) -> set[str]:
        """All that the runtime or the agent has."""
        return {*self.sandboxes, *self.stopped, *(row.pod for row in self.rows), *self.statuses}


def unsettled(wanted: Mapping[str, Wanted], seen: Seen, restarts: Restarts) -> list[str]:
    """What is not as it should be yet; empty when the node does what is wanted and nothing else."""
    found = [f"{pod}: not wanted any more" for pod in sorted(seen.pods() - wanted.keys())]
    for pod, want in wanted.items():
        found += _unsettled_pod(pod, want, seen, restarts)
    return found


def _unsettled_pod(pod: str, want: Wanted, seen: Seen, restarts: Restarts) -> list[str]:
    status = seen.statuses.get(pod)
    if status is None:
        return [f"{pod}: the agent does not have it"]
    # What must not run again has ended for good when the fault killed it.
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


def _runs(seen: Seen, pod: str, name: str) -> bool:
    # A program that has begun has noted it; the runtime may say so a moment sooner.
    row = seen.current(pod, name)
    return row is not None and row.running and seen.runs.get((pod, name), 0) > 0


def doubles(seen: Seen) -> list[str]:
    """What runs twice at this moment."""
    running = Counter(f"{row.pod}/{row.name}" for row in seen.rows if row.running)
    found = [f"{name}: {count} containers run" for name, count in running.items() if count > 1]
    return found + [f"{pod}: {count} ready sandboxes" for pod, count in seen.sandboxes.items() if count > 1]


def compare(before: Seen, after: Seen, wanted: Mapping[str, Wanted], restarts: Restarts) -> Try:
    """The verdict over pods that were there before and that are there after, but for what is lost."""
    verdict = Try()
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
