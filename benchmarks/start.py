"""Pod start: from the manifest's appearance (its rename into the directory) to the main container's ``startedAt``.

``start.one``, ``start.volumes``: one pod at a time, alternating with a pod of equal configuration by bare CRI calls;
``overhead`` is the difference of such a pair. ``start.N``: N pods at once; ``running`` is each pod's latency,
``wall`` the time until the last one runs, ``overhead`` the difference of the two walls divided by N: the cost of a pod.
``ready`` is the time until a client of the agent sees the pod Ready.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from benchmarks.bare import BarePods, Recipe, read_recipe
from benchmarks.figures import BARE, differences
from benchmarks.manifests import plain
from benchmarks.observer import NODE
from benchmarks.plan import Part
from benchmarks.session import MILLI, Session, main_start
from benchmarks.subjects import Builder, Subject, is_ready
from pykubelet.base.errors import Permanent

_READY_SECONDS = 30.0


async def one_at_a_time(session: Session, key: str, build: Builder) -> None:
    """Measure the figures ``start.KEY``."""
    running, ready, floor = [], [], []
    names = [f"{key}-{number:02}" for number in range(session.plan.one_at_a_time)]
    async with readiness(session.subject) as seen:
        recipe = await _first(session, f"{key}-first", build)
        for number, name in enumerate(names, 1):
            session.say(f"{session.subject.label}: start one at a time, {key}, {number} of {len(names)}")
            if session.bare is not None and recipe is not None:
                floor.append(await _bare_latency(session.bare, session.bare.prepare(recipe, name)))
            begin = session.subject.write(name, build(name))
            runs = await session.observer.running([name])
            running.append((main_start(runs, name) - begin) / MILLI)
            ready.append((await seen.when(name) - begin) / MILLI)
    session.note(f"start.{key}.running", "ms", running)
    session.note(f"start.{key}.ready", "ms", ready)
    if session.bare is not None:
        session.note(f"start.{key}.running", "ms", floor, BARE)
        session.note(f"start.{key}.overhead", "ms", differences(running, floor))
    await _clear_all(session)


async def at_once(session: Session, count: int, *, keep: bool) -> None:
    """Measure the figures ``start.COUNT``; with `keep` the agent's pods are kept."""
    label = session.subject.label
    floor = 0.0
    if session.bare is not None and session.wants(Part.START):
        recipe = await _recipe(session, "first", plain)
        recipes = [session.bare.prepare(recipe, f"bare-{number:03}") for number in range(count)]
        await session.clear()
        session.say(f"{BARE}: {count} pods at once")
        floor = await _bare_at_once(session, session.bare, recipes)
    session.say(f"{label}: {count} pods at once")
    # The names differ from those of earlier series: an agent may still be terminating those pods.
    names = [f"many-{count}-{number:03}" for number in range(count)]
    begins = session.write_all(names, plain)
    runs = await session.observer.running(names, timeout=180)
    starts = {name: main_start(runs, name) for name in names}
    wall = (max(starts.values()) - min(begins.values())) / MILLI
    if session.wants(Part.START):
        session.note(f"start.{count}.running", "ms", [(starts[name] - begins[name]) / MILLI for name in names])
        session.note(f"start.{count}.wall", "ms", [wall])
        if session.bare is not None:
            session.note(f"start.{count}.overhead", "ms", [(wall - floor) / count])
    if not keep:
        session.say(f"{label}: removing {count} pods")
        await session.clear()


async def _bare_at_once(session: Session, bare: BarePods, recipes: Sequence[Recipe]) -> float:
    """The wall time of these pods by bare CRI calls, in milliseconds."""
    count = len(recipes)
    begin = time.time_ns()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(bare.start(each), name="bare pod") for each in recipes]
    starts = [task.result()[-1].started for task in tasks]
    wall = (max(starts) - begin) / MILLI
    session.note(f"start.{count}.running", "ms", [(start - begin) / MILLI for start in starts], BARE)
    session.note(f"start.{count}.wall", "ms", [wall], BARE)
    session.say(f"{BARE}: removing {count} pods")
    await bare.remove_all()
    return wall


async def _bare_latency(bare: BarePods, recipe: Recipe) -> float:
    runs = await bare.start(recipe)
    return (runs[-1].started - runs[0].started) / MILLI


async def _recipe(session: Session, name: str, build: Builder) -> Recipe:
    """Start a pod outside the series, also as warm-up; returns its configurations."""
    session.subject.write(name, build(name))
    await session.observer.running([name])
    return await read_recipe(session.observer.client, await session.containers(), name)


async def _first(session: Session, name: str, build: Builder) -> Recipe | None:
    """Start a pod as warm-up; returns its configurations, None if the session measures no lower bound."""
    if session.bare is not None:
        return await _recipe(session, name, build)
    session.subject.write(name, build(name))
    await session.observer.running([name])
    return None


async def _clear_all(session: Session) -> None:
    session.say(f"{session.subject.label}: removing pods")
    await session.clear()
    if session.bare is not None:
        await session.bare.remove_all()


class Readiness:
    """Records when each pod was first seen Ready."""

    def __init__(self) -> None:
        self._moments: dict[str, int] = {}
        self._changed = asyncio.Condition()

    async def follow(self, subject: Subject) -> None:
        async for pod in subject.pods_as_seen():
            name = pod["metadata"]["name"].removesuffix(f"-{NODE}")
            if name not in self._moments and is_ready(pod):
                async with self._changed:
                    self._moments[name] = time.time_ns()
                    self._changed.notify_all()

    async def when(self, name: str) -> int:
        """Wait until the pod was seen Ready; returns the time in nanoseconds of the wall clock."""
        try:
            async with asyncio.timeout(_READY_SECONDS), self._changed:
                await self._changed.wait_for(lambda: name in self._moments)
        except TimeoutError:
            raise Permanent(f"pod {name} was not Ready within {_READY_SECONDS:.0f} s") from None
        return self._moments[name]


@asynccontextmanager
async def readiness(subject: Subject) -> AsyncIterator[Readiness]:
    """Follow the agent's pods during the block."""
    async with asyncio.TaskGroup() as group:
        seen = Readiness()
        task = group.create_task(seen.follow(subject), name="follow readiness")
        yield seen
        task.cancel()
