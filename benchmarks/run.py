"""A whole run: every agent in turn, every part of the plan."""

import asyncio
from collections.abc import Callable

from benchmarks.bare import BarePods
from benchmarks.commands import commands
from benchmarks.cri import compare
from benchmarks.figures import Figure
from benchmarks.idle import idle_with_few, measure
from benchmarks.images import unpacking
from benchmarks.manifests import plain
from benchmarks.observer import Observer
from benchmarks.plan import Part, Plan
from benchmarks.played import played
from benchmarks.pulls import pulls
from benchmarks.restart import inits, restarts
from benchmarks.session import Session
from benchmarks.start import at_once, one_at_a_time
from benchmarks.subjects import Agent
from benchmarks.through_api import Output, through_api
from benchmarks.usage import busy_seconds
from benchmarks.world import World
from pykubelet.base.errors import Permanent

_LOOK_AROUND_SECONDS = 2.0
_QUIET_SHARE = 0.1
"""Share of one core that other programs may use."""


async def run(made: World, plan: Plan, out: Output) -> None:
    """Add all figures to the list, so that an interrupted run keeps the figures that it has taken."""
    figures, say = out.figures, out.say
    pid = made.agents.pid()
    if pid is None:
        raise Permanent("the agents' containerd has ended; see its log")
    await _look_around(say)
    if Part.CRI in plan.parts:
        await compare(made, plan, figures, say)
    if plan.parts & {Part.CRI, Part.CLI}:
        await _whole(made, plan, figures, say)
    if Part.IMAGES in plan.parts:
        await unpacking(made, plan, figures, say)
    if Part.PULLS in plan.parts:
        await pulls(made, plan, figures, say)
    if Part.API in plan.parts:
        await through_api(made, plan, out)
    if Part.PODMAN in plan.parts:
        await played(made, plan, out)
    if not plan.parts & {Part.START, Part.RESTART, Part.INIT, Part.IDLE}:
        return
    async with Observer.connect(made.agents.endpoint) as observer:
        async with Observer.connect(made.bare.endpoint) as bare_observer:
            bare = BarePods(bare_observer.client, made.bare_directory, made.bare_cgroup)
            session = Session(plan, made.agent, observer, bare, pid, figures, say)
            await _measure(session)
        if made.go is not None:
            await _measure(Session(plan, made.go, observer, None, pid, figures, say))


async def _whole(made: World, plan: Plan, figures: list[Figure], say: Callable[[str], None]) -> None:
    """Measure the start of one pod, and the command line, with the agent on ``pykubelet criserver``."""
    pid = made.server.pid()
    if pid is None:
        raise Permanent("our runtime server has ended; see its log")
    async with Observer.connect(made.server.endpoint) as observer:
        session = Session(plan, made.whole, observer, None, pid, figures, say)
        await session.start_agent()
        if Part.CRI in plan.parts:
            await one_at_a_time(session, "one", plain)
        if Part.CLI in plan.parts:
            await commands(session, made.whole, made.bare_directory)
        await session.stop_agent()


async def _look_around(say: Callable[[str], None]) -> None:
    """Warn if other programs use the machine, which increases every figure, including the lower bound."""
    before = busy_seconds()
    await asyncio.sleep(_LOOK_AROUND_SECONDS)
    share = (busy_seconds() - before) / _LOOK_AROUND_SECONDS
    if share > _QUIET_SHARE:
        say(f"warning: others use {share:.0%} of a core; the figures will be worse than on a quiet machine\n")


async def _measure(session: Session) -> None:
    plan, subject = session.plan, session.subject
    session.say(f"{subject.label}: starting")
    await session.start_agent()
    if session.wants(Part.IDLE):
        for count in plan.idle_pods[:-1]:
            await idle_with_few(session, count)
    if session.wants(Part.START):
        await one_at_a_time(session, "one", plain)
        await one_at_a_time(session, "volumes", subject.volumes)
    if session.wants(Part.RESTART):
        await restarts(session)
    if session.wants(Part.INIT):
        await inits(session)
    await _many(session)
    await session.stop_agent()


async def _many(session: Session) -> None:
    """Measure concurrent pods; the last ones are kept for the idle figures."""
    idle = session.plan.idle_pods[-1] if session.wants(Part.IDLE) else None
    for count in sorted({*(session.plan.at_once if session.wants(Part.START) else ()), *([idle] if idle else ())}):
        await at_once(session, count, keep=count == idle)
        if count == idle:
            await _idle_with_many(session, count)


async def _idle_with_many(session: Session, count: int) -> None:
    await measure(session, count, session.plan.idle_seconds)
    if isinstance(session.subject, Agent):
        session.say("agent: restarting on a runtime without events")
        await asyncio.to_thread(session.subject.restart_without_events)
        await measure(session, count, session.plan.idle_seconds)
    session.say(f"{session.subject.label}: removing {count} pods")
    await session.clear()
