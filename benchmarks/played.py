"""The same manifests by ``podman kube play`` and by ``pykubelet apply --wait``, in turn, with the same image and runc.

``play.KIND.line``: from the start of the command until the program in the container prints its first line, by conmon,
which both have; ``play.KIND.file``: the same from the appearance of a manifest in the agent's directory.
``play.KIND.command`` and ``play.KIND.down``: the time of the command, and of ``podman kube down`` or ``pykubelet
delete``. ``play.N.line``: N pods in one file, until the last one prints its line; ``play.N.memory``: what runs for
these pods besides their containers, as proportional set size: monitors, infra containers, podman's name server, and on
the other side the agent and its runtime server.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from benchmarks.cri import helpers
from benchmarks.figures import PODMAN, WHOLE, Figure
from benchmarks.manifests import IMAGE, talking, talking_with_volumes
from benchmarks.observer import Observer
from benchmarks.plan import Plan
from benchmarks.podman import Podman
from benchmarks.session import MILLI
from benchmarks.subjects import Agent, Builder
from benchmarks.through_api import Output
from benchmarks.usage import sum_of
from benchmarks.world import World
from pykubelet.base.errors import NotFound, Permanent
from pykubelet.testing.agent import environment, wait_for
from pykubelet.testing.ociimage import ImageSpec

_KINDS: dict[str, Builder] = {"one": talking, "volumes": talking_with_volumes}
_LINE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Player:
    """One of the two programs."""

    label: str
    up: Callable[[str], list[str]]
    """Command that starts the pods of a file."""
    down: Callable[[str], list[str]]
    """Command that ends them."""
    log_of: Callable[[str], Path | None]
    processes: Callable[[], list[int]]
    """Processes that run for the pods besides their containers."""


@dataclass(frozen=True, slots=True)
class _Bench:
    """The state of the part."""

    directory: Path
    """Takes the manifests of the commands."""
    plan: Plan
    out: Output
    series: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """Milliseconds by figure and subject."""

    def keep(self, key: str, label: str, milliseconds: float) -> None:
        self.series.setdefault((f"play.{key}", label), []).append(milliseconds)

    def file(self, name: str, documents: Sequence[object]) -> str:
        path = self.directory / f"{name}.yaml"
        path.write_text("\n---\n".join(json.dumps(document) for document in documents))
        return str(path)


async def played(made: World, plan: Plan, out: Output) -> None:
    """Take all figures ``play``; a remark is added if there is no podman."""
    try:
        made.podman.create()
    except NotFound as error:
        out.remarks.append(f"podman kube play was not measured: it {error}")
        return
    out.say("podman: loading the image")
    await asyncio.to_thread(made.podman.load, ImageSpec(IMAGE))
    out.remarks.append(f"podman is version {made.podman.version()}")
    made.bare_directory.mkdir(parents=True, exist_ok=True)
    bench = _Bench(made.bare_directory, plan, out)
    await asyncio.to_thread(made.whole.start)
    try:
        async with Observer.connect(made.server.endpoint) as observer:
            await _measure(bench, made, observer)
    finally:
        await asyncio.to_thread(made.whole.stop)
        out.figures.extend(Figure(key, label, "ms", tuple(values)) for (key, label), values in bench.series.items())


async def _measure(bench: _Bench, made: World, observer: Observer) -> None:
    players = (_podman(made.podman), _ours(made))
    for kind, build in _KINDS.items():
        # The first pod of each is not measured: podman makes the image of its infra containers with it.
        for number in range(-1, bench.plan.played):
            name = f"{kind}-{number + 1:02}"
            bench.out.say(f"podman kube play and apply: {kind}, {number + 1} of {bench.plan.played}")
            for player in players:
                taken = await _play(bench, player, name, build(name))
                if number >= 0:
                    for key, value in taken.items():
                        bench.keep(f"{kind}.{key}", player.label, value)
            if number >= 0:
                bench.keep(f"{kind}.file", WHOLE, await _by_file(made.whole, observer, f"file-{name}", build))
    await _many(bench, players)


async def _play(bench: _Bench, player: _Player, name: str, documents: Sequence[object]) -> dict[str, float]:
    """Start and end the pod; returns milliseconds by the last part of the figure's key."""
    file = bench.file(name, documents)
    begin = time.time_ns()
    command = await _run(player.up(file))
    line = await _first_line(player.log_of, name)
    return {"line": (line - begin) / MILLI, "command": command, "down": await _run(player.down(file))}


async def _by_file(agent: Agent, observer: Observer, name: str, build: Builder) -> float:
    begin = agent.write(name, build(name))
    line = await _first_line(agent.log_of, name)
    agent.remove_manifests()
    await observer.stopped()
    return (line - begin) / MILLI


async def _many(bench: _Bench, players: Sequence[_Player]) -> None:
    count = bench.plan.played_at_once
    names = [f"many-{number:02}" for number in range(count)]
    file = bench.file("many", [document for name in names for document in talking(name)])
    for player in players:
        bench.out.say(f"{player.label}: {count} pods in one file")
        begin = time.time_ns()
        bench.keep(f"{count}.command", player.label, await _run(player.up(file)))
        lines = [await _first_line(player.log_of, name) for name in names]
        bench.keep(f"{count}.line", player.label, (max(lines) - begin) / MILLI)
        await asyncio.sleep(bench.plan.settle_seconds)
        memory = sum_of(player.processes()).pss_mib
        bench.out.figures.append(Figure(f"play.{count}.memory", player.label, "MiB", (memory,)))
        bench.keep(f"{count}.down", player.label, await _run(player.down(file)))


def _podman(podman: Podman) -> _Player:
    return _Player(
        PODMAN,
        lambda file: podman.command("kube", "play", file),
        lambda file: podman.command("kube", "down", file),
        podman.log_of,
        podman.processes,
    )


def _ours(made: World) -> _Player:
    def processes() -> list[int]:
        server = made.server.pid()
        if server is None:
            raise Permanent("our runtime server has ended; see its log")
        return [made.whole.pid, server, *helpers(made.server)]

    return _Player(
        WHOLE,
        lambda file: made.whole.command("apply", "-f", file, "--wait"),
        lambda file: made.whole.command("delete", "-f", file),
        made.whole.log_of,
        processes,
    )


async def _first_line(log_of: Callable[[str], Path | None], pod: str) -> int:
    """Wait until the pod's container has printed a line; returns its time in nanoseconds of the wall clock."""
    return await asyncio.to_thread(_wait_for_line, log_of, pod)


def _wait_for_line(log_of: Callable[[str], Path | None], pod: str) -> int:
    wait_for(lambda: bool(_read(log_of(pod))), _LINE_SECONDS, lambda: f"pod {pod} has not printed a line")
    return line_time(_read(log_of(pod)))


def _read(log: Path | None) -> str:
    """The first line of a log; empty if there is none yet."""
    try:
        return log.read_text().partition("\n")[0] if log else ""
    except FileNotFoundError:
        return ""


def line_time(line: str) -> int:
    """The time of a line of a container's log (``2026-11-26T11:08:57.043154342+00:00 stdout F …``) in nanoseconds."""
    return int(datetime.fromisoformat(line.partition(" ")[0]).timestamp() * 1e6) * 1000


async def _run(argv: Sequence[str]) -> float:
    """Run a command; returns its time in milliseconds. Permanent: it has failed."""
    return await asyncio.to_thread(_run_now, argv)


def _run_now(argv: Sequence[str]) -> float:
    begin = time.monotonic()
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment(), check=False
    )
    took = time.monotonic() - begin
    if done.returncode:
        raise Permanent(f"{' '.join(argv)} has exited with {done.returncode}: {done.stderr.strip()[-500:]}")
    return 1000 * took
