"""The command line beside a running agent.

``cli.apply.ready``: from the start of ``apply -f FILE --wait`` until a client of the agent sees the pod Ready;
``cli.apply.own``: the same from the appearance of a manifest in the directory, alternately; ``cli.apply.overhead`` is
the difference of such a pair. ``cli.NAME.wall`` and ``cli.NAME.cpu`` are time and CPU time of whole commands.
"""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.figures import differences
from benchmarks.manifests import plain
from benchmarks.session import MILLI, Session
from benchmarks.start import readiness
from benchmarks.subjects import Agent
from pykubelet.base.errors import Permanent
from pykubelet.testing.agent import environment

_COMMANDS: Final = {
    "help": ("--help",),
    "get": ("get", "pods"),
    "describe": ("describe", "pod", "{}"),
    "logs": ("logs", "{}"),
}


async def commands(session: Session, agent: Agent, directory: Path) -> None:
    """Measure the figures ``cli``. ``directory`` takes the manifests that are applied."""
    directory.mkdir(parents=True, exist_ok=True)
    ready, own = [], []
    async with readiness(agent) as seen:
        for number in range(session.plan.commands):
            session.say(f"{agent.label}: apply, {number + 1} of {session.plan.commands}")
            alone, applied = f"alone-{number:02}", f"applied-{number:02}"
            begin = agent.write(alone, plain(alone))
            own.append((await seen.when(alone) - begin) / MILLI)
            file = directory / f"{applied}.json"
            file.write_text(json.dumps(plain(applied)[0]))
            begin = time.time_ns()
            running = asyncio.create_task(
                asyncio.to_thread(_run, agent.command("apply", "-f", str(file), "--wait")), name="apply"
            )
            ready.append((await seen.when(applied) - begin) / MILLI)
            await running
    session.note("cli.apply.ready", "ms", ready)
    session.note("cli.apply.own", "ms", own)
    session.note("cli.apply.overhead", "ms", differences(ready, own))
    for name, words in _COMMANDS.items():
        session.say(f"{agent.label}: {name}")
        argv = agent.command(*(word.format(applied) for word in words))
        measured = [await asyncio.to_thread(_run, argv) for _ in range(session.plan.commands)]
        session.note(f"cli.{name}.wall", "ms", [wall for wall, _ in measured])
        session.note(f"cli.{name}.cpu", "ms", [cpu for _, cpu in measured])
    await session.clear()


def _run(argv: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its time and its CPU time in milliseconds. Permanent: it has failed."""
    begin = time.monotonic()
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Permanent(f"{' '.join(argv)} has exited with {process.returncode}")
    return 1000 * wall, 1000 * (usage.ru_utime + usage.ru_stime)
