"""One agent under measurement: the state that the parts share."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from benchmarks.bare import BarePods
from benchmarks.figures import Figure, Unit
from benchmarks.observer import Observer, Run
from benchmarks.plan import Part, Plan
from benchmarks.subjects import Builder, Subject
from pykubelet.pb import runtime_v1_pb2 as pb

MILLI = 1e6
"""Nanoseconds in a millisecond."""


@dataclass(frozen=True, slots=True)
class Session:
    """An agent, its observer, and the list of figures."""

    plan: Plan
    subject: Subject
    observer: Observer
    bare: BarePods | None
    """The lower bound; None for the peer, which is compared with the agent."""
    runtime_pid: int
    """PID of the daemon of the agent's runtime."""
    figures: list[Figure]
    say: Callable[[str], None]
    """Reports progress."""

    def note(self, key: str, unit: Unit, values: Sequence[float], subject: str = "") -> None:
        """Add a series; its subject is this session's agent unless another one is given."""
        self.figures.append(Figure(key, subject or self.subject.label, unit, tuple(values)))

    def wants(self, part: Part) -> bool:
        return part in self.plan.parts

    def write_all(self, names: Collection[str], build: Builder) -> dict[str, int]:
        """Write the manifests as fast as possible; returns the wall clock time of each."""
        return {name: self.subject.write(name, build(name)) for name in names}

    async def containers(self) -> Sequence[pb.Container]:
        """All containers of the agent's runtime."""
        return await self.observer.client.list_containers()

    async def clear(self) -> None:
        """Remove the agent's manifests, wait until its pods are gone and remove the pods of bare CRI calls."""
        self.subject.remove_manifests()
        await self.observer.stopped()

    async def start_agent(self) -> None:
        await asyncio.to_thread(self.subject.start)

    async def stop_agent(self) -> None:
        await asyncio.to_thread(self.subject.stop)


def main_start(runs: Sequence[Run], pod: str) -> int:
    """Time of the first start of the pod's main container."""
    return next(run.started for run in runs if run.pod == pod and run.container == "main" and run.attempt == 0)
