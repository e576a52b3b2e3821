"""Latencies after the exit of a container.

``restart.gap``: a container exits with 1; from the runtime's ``finishedAt`` to the ``startedAt`` of its next run. Only
the first restart counts, which comes without back-off in this agent and in the Go kubelet.
``init.total``: a pod with 5 init containers of ``true``, from the manifest's appearance to the main container's
``startedAt``; ``init.step``: from one init container's ``finishedAt`` to the next container's ``startedAt``.
The lower bound makes the same calls directly and polls for the exit every 5 ms.
"""

import asyncio
from collections.abc import Sequence

from benchmarks.bare import read_recipe
from benchmarks.figures import BARE
from benchmarks.manifests import fails_once, with_inits
from benchmarks.observer import Run
from benchmarks.session import MILLI, Session, main_start


async def restarts(session: Session) -> None:
    """The figure ``restart.gap``."""
    gaps = []
    for number in range(session.plan.restarts):
        session.say(f"{session.subject.label}: restart {number + 1} of {session.plan.restarts}")
        name = f"restart-{number:02}"
        # Spread over a second; otherwise every exit would come at the same point of an agent's relist period.
        await asyncio.sleep(number / session.plan.restarts)
        session.subject.write(name, fails_once(name))
        runs = sorted(await session.observer.restarted(name), key=lambda run: run.attempt)
        gaps.append((runs[1].started - runs[0].finished) / MILLI)
    session.note("restart.gap", "ms", gaps)
    await session.clear()


async def inits(session: Session) -> None:
    """The figures ``init.total`` and ``init.step``."""
    totals, steps, floors, floor_steps = [], [], [], []
    for number in range(session.plan.inits):
        session.say(f"{session.subject.label}: init containers, pod {number + 1} of {session.plan.inits}")
        name = f"init-{number:02}"
        begin = session.subject.write(name, with_inits(name))
        runs = await session.observer.running([name])
        totals.append((main_start(runs, name) - begin) / MILLI)
        steps += _steps(runs)
        if session.bare is not None:
            recipe = await read_recipe(session.observer.client, await session.containers(), name)
            bare_runs = await session.bare.start(session.bare.prepare(recipe, name))
            floors.append((bare_runs[-1].started - bare_runs[0].started) / MILLI)
            floor_steps += _steps(bare_runs[1:])
    session.note("init.total", "ms", totals)
    session.note("init.step", "ms", steps)
    if session.bare is not None:
        session.note("init.total", "ms", floors, BARE)
        session.note("init.step", "ms", floor_steps, BARE)
        await session.bare.remove_all()
    await session.clear()


def _steps(runs: Sequence[Run]) -> list[float]:
    ordered = sorted(runs, key=lambda run: run.started)
    return [(ordered[i + 1].started - run.finished) / MILLI for i, run in enumerate(ordered[:-1])]
