"""Endurance: ``python -m benchmarks.churn --minutes 60`` (`make churn MINUTES=60`).

Pods are created and deleted at a steady rate on ``pykubelet criserver``, for the given time; agent and server are
killed with SIGKILL every minute and restarted. The resources of each daemon (resident memory, threads, open file
descriptors, asyncio tasks) are read at the same age of each of its lives, with the same number of pods. They must
stay constant, and at the end nothing may be left on the machine.
"""

import asyncio
import contextlib
import json
import signal
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from pykubelet.base.errors import PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess, is_ready, wait_for
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.isolation import claim
from pykubelet.testing.nodetraces import NodeTraces
from pykubelet.testing.ociimage import ImageSpec

_IMAGE = "docker.io/library/churn:1"
_BARS = "▁▂▃▄▅▆▇█"
_SETTLE_SECONDS = 180.0
_BUSY_SECONDS = 3.0
_TOLERANCE = 0.05
"""Permitted relative growth from the first third of the lives to the last third."""
_SLACK = {"RSS MiB": 1.0, "threads": 2.0, "descriptors": 3.0, "tasks": 4.0}
"""Permitted absolute growth of each figure: small numbers vary."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The resources of one daemon at one moment."""

    minute: float
    daemon: str
    figures: dict[str, float]


@dataclass(slots=True)
class Findings:
    """The results of a run."""

    samples: list[Sample] = field(default_factory=list)
    recoveries: list[float] = field(default_factory=list)
    """Seconds from a kill until the desired pods, and no others, were ready."""
    made: int = 0
    left: list[str] = field(default_factory=list)
    """Leftovers on the machine at the end."""

    def series(self, daemon: str, figure: str) -> list[float]:
        return [sample.figures[figure] for sample in self.samples if sample.daemon == daemon]

    def grown(self) -> list[str]:
        """The figures that have grown."""
        return [
            f"{daemon}: {figure} grew from {first:.1f} to {last:.1f}"
            for daemon in ("agent", "server")
            for figure, slack in _SLACK.items()
            for first, last in [thirds(self.series(daemon, figure))]
            if last > max(first * (1 + _TOLERANCE), first + slack)
        ]


def thirds(series: list[float]) -> tuple[float, float]:
    """The medians of the first and of the last third."""
    if not series:
        return 0.0, 0.0
    size = max(1, len(series) // 3)
    return statistics.median(series[:size]), statistics.median(series[-size:])


def sparkline(series: list[float], width: int = 40) -> str:
    """The series as bars, from 0 to its maximum."""
    if not series:
        return ""
    step = max(1, -(-len(series) // width))
    means = [statistics.fmean(series[at : at + step]) for at in range(0, len(series), step)]
    top = max(means) or 1.0
    return "".join(_BARS[round(mean / top * (len(_BARS) - 1))] for mean in means)


class Churn:
    """Writes and removes manifests at a rate, so that ``window`` pods are desired at a time."""

    def __init__(self, agent: AgentProcess, rate: float, window: int) -> None:
        self._agent = agent
        self._pause = 1 / rate
        self._window = window
        self._next = time.monotonic()
        self.made = 0
        self.wanted: list[str] = []

    def go_on(self, until: float) -> None:
        """Churn until that moment of the monotonic clock."""
        while (now := time.monotonic()) < until:
            if now < self._next:
                time.sleep(min(self._next, until) - now)
                continue
            self._next = max(self._next + self._pause, now - 1.0)
            self._add()
            while len(self.wanted) > self._window:
                (self._agent.manifests / f"{self.wanted.pop(0)}.json").unlink()

    def _add(self) -> None:
        self.made += 1
        name = f"churn-{self.made}"
        spec = {
            "containers": [
                {
                    "name": "main",
                    "image": _IMAGE,
                    "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"],
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                }
            ],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "terminationGracePeriodSeconds": 2,
        }
        self._agent.write(f"{name}.json", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        self.wanted.append(name)

    def settled(self) -> bool:
        """Whether the desired pods, and no others, exist and are ready."""
        pods: dict[str, Pod] = self._agent.pods()
        return pods.keys() == set(self.wanted) and all(map(is_ready, pods.values()))


def sample(minute: float, agent: AgentProcess, server: PrivateCriServer, port: int) -> list[Sample]:
    """The current resources of both daemons."""
    pid = server.pid()
    assert pid is not None, "the runtime server does not run"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        rows = [line for line in response.read().decode().splitlines() if line.startswith("pykubelet_asyncio_tasks ")]
    info = asyncio.run(_server_info(server.endpoint))
    return [
        Sample(minute, "agent", {**_held(agent.pid), "tasks": float(rows[0].split()[1])}),
        Sample(minute, "server", {**_held(pid), "tasks": float(info["tasks"])}),
    ]


async def _server_info(endpoint: str) -> dict[str, float]:
    async with CriClient.connect(endpoint) as client:
        status = await client.status(verbose=True)
    found: dict[str, float] = json.loads(status.info["process"])
    return found


def _held(pid: int) -> dict[str, float]:
    rows = dict(line.split(b":", 1) for line in Path(f"/proc/{pid}/status").read_bytes().splitlines())
    return {
        "RSS MiB": int(rows[b"VmRSS"].split()[0]) / 1024,
        "threads": float(rows[b"Threads"]),
        "descriptors": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
    }


@contextlib.contextmanager
def _node(port: int) -> Iterator[tuple[AgentProcess, PrivateCriServer]]:
    """Start a private server and agent; everything of them is removed at the end."""
    mine = claim()
    server = mine.criserver()
    agent = AgentProcess(
        mine.home / "a", server.endpoint, mine.cgroup_root, config={"healthzPort": port, "maxPods": 250}
    )
    try:
        server.start()
        server.load(ImageSpec(_IMAGE))
        agent.start()
        yield agent, server
    finally:
        agent.destroy()
        mine.destroy()


def run(minutes: float, rate: float, window: int, kill_every: float, console: Console) -> Findings:
    """Run the endurance test; returns its results."""
    found = Findings()
    port = free_port()
    with _node(port) as (agent, server):
        traces = NodeTraces(agent, server)
        churn = Churn(agent, rate, window)
        begun = time.monotonic()
        while time.monotonic() < begun + minutes * 60:
            churn.go_on(time.monotonic() + kill_every)
            minute = (time.monotonic() - begun) / 60
            # The last pods are still being created and removed; the figures are those of an idle node.
            _wait_settled(churn, agent)
            found.samples += sample(minute, agent, server, port)
            churn.go_on(time.monotonic() + _BUSY_SECONDS)  # so that the kill strikes pods that come and go
            killed = time.monotonic()
            agent.kill()
            server.signal(signal.SIGKILL)
            server.start()
            agent.start()
            _wait_settled(churn, agent)
            found.recoveries.append(time.monotonic() - killed)
            _tell(console, minute, found, churn)
        agent.remove_all_pods(_SETTLE_SECONDS)
        found.made = churn.made
        found.left = [f"{kind}: {name}" for kind, names in traces.wait_none_left().items() for name in names]
    return found


def _wait_settled(churn: Churn, agent: AgentProcess) -> None:
    wait_for(churn.settled, _SETTLE_SECONDS, lambda: f"wanted {churn.wanted}\n{agent.log_tail(20000)}")


def _tell(console: Console, minute: float, found: Findings, churn: Churn) -> None:
    last = {each.daemon: each.figures for each in found.samples[-2:]}
    figures = "; ".join(f"{name} " + ", ".join(f"{k} {v:.0f}" for k, v in held.items()) for name, held in last.items())
    console.print(f"{minute:5.1f} min  {churn.made} pods  {figures}; recovered in {found.recoveries[-1]:.1f} s")


def show(console: Console, found: Findings) -> None:
    """Print the table: each figure over the lives."""
    table = Table("daemon", "figure", "first third", "last third", "most", "over the lives, from 0")
    for daemon in ("agent", "server"):
        for figure in _SLACK:
            series = found.series(daemon, figure)
            first, last = thirds(series)
            table.add_row(daemon, figure, f"{first:.1f}", f"{last:.1f}", f"{max(series):.1f}", sparkline(series))
    console.print(table)
    recoveries = found.recoveries
    console.print(
        f"{found.made} pods, {len(recoveries)} kills of both; recovery p50 {statistics.median(recoveries):.1f} s,"
        f" most {max(recoveries):.1f} s; {len(found.left)} traces left"
    )
    for line in (*found.grown(), *found.left):
        console.print(f"[bold red]{line}[/bold red]")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", type=float, default=60.0, show_default=True)
@click.option("--rate", type=float, default=2.0, show_default=True, help="Pods that come, and that go, per second.")
@click.option("--window", type=int, default=20, show_default=True, help="Pods wanted at a time.")
@click.option("--kill-every", type=float, default=60.0, show_default=True, help="Seconds between the kills.")
def main(minutes: float, rate: float, window: int, kill_every: float) -> None:
    """Exit status: 0 no growth and no leftovers; 1 growth, leftovers or no recovery."""
    console = Console(width=None if sys.stdout.isatty() else 140)
    try:
        found = run(minutes, rate, window, kill_every, console)
    except (PykubeletError, AssertionError) as error:
        console.print(f"[bold red]not finished:[/bold red] {error}", soft_wrap=True)
        sys.exit(1)
    show(console, found)
    sys.exit(1 if found.grown() or found.left else 0)


if __name__ == "__main__":
    main()
