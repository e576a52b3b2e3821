"""One agent under measurement: what the parts share."""

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
    """An agent, what observes it, and where the figures go."""

    plan: Plan
    subject: Subject
    observer: Observer
    bare: BarePods | None
    """The floor to compare with; None for the peer, which is compared with the agent."""
    runtime_pid: int
    """The daemon of the agent's runtime."""
    figures: list[Figure]
    say: Callable[[str], None]
    """Tells what is going on."""

    def note(self, key: str, unit: Unit, values: Sequence[float], subject: str = "") -> None:
        """Keep a series; of this session's agent unless another subject is named."""
        self.figures.append(Figure(key, subject or self.subject.label, unit, tuple(values)))

    def wants(self, part: Part) -> bool:
        return part in self.plan.parts

    def write_all(self, names: Collection[str], build: Builder) -> dict[str, int]:
        """Write one manifest after the other, as fast as it goes; the wall clock of each."""
        return {name: self.subject.write(name, build(name)) for name in names}

    async def containers(self) -> Sequence[pb.Container]:
        """All containers of the agent's runtime."""
        return await self.observer.client.list_containers()

    async def clear(self) -> None:
        """Take the agent's manifests away, wait for the end of its pods and remove what is left of the bare ones."""
        self.subject.remove_manifests()
        await self.observer.stopped()

    async def start_agent(self) -> None:
        await asyncio.to_thread(self.subject.start)

    async def stop_agent(self) -> None:
        await asyncio.to_thread(self.subject.stop)


def main_start(runs: Sequence[Run], pod: str) -> int:
    """When the main container of the pod started first."""
    return next(run.started for run in runs if run.pod == pod and run.container == "main" and run.attempt == 0)
