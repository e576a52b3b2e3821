"""``make run``: run the agent on ``examples/`` with a live screen; ``make clean-run`` removes it.

The agent starts its own runtime server. All files of the demo are below one directory; the names of its bridge and its
cgroups contain the demo's name.
"""

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.columns import age
from pykubelet.cli.local_api import LocalApi
from pykubelet.cli.pod_row import pod_row
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.ociimage import ImageSpec

HOME = Path("/var/lib/pykubelet-demo")
IMAGE = "localhost/pykubelet/demo:1"
CGROUP = "/pykubelet-demo"
LOG_LINES = 12
REFRESH_SECONDS = 0.5
STOP_SECONDS = 10.0

console = Console()


def runtime() -> PrivateCriServer:
    """The agent's runtime server."""
    return PrivateCriServer(HOME / "criserver", "pkdemo0", "10.89.77.0/24")


def agent() -> AgentProcess:
    """The demo's agent, on the project's examples."""
    return AgentProcess(
        home=HOME / "agent",
        endpoint="",
        cgroup_root=CGROUP,
        node_name="demo-node",
        flags=("--criserver-config", str(runtime().config)),
        manifest_dir=Path(__file__).resolve().parent.parent / "examples",
    )


def up() -> int:
    """Start the demo unless it runs, and show it until Ctrl-C; the pods keep running afterwards."""
    if os.geteuid() != 0:
        console.print("[red]make run needs root: sudo make run[/red]")
        return 1
    _end_agent()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A terminal that closes ends the demo as Ctrl-C does.
        signal.signal(number, signal.default_int_handler)
    with console.status("packing the demo image …"):
        # Running pods keep running while their server is down.
        runtime().stop()
        runtime().write_configuration()
        runtime().load(ImageSpec(IMAGE))
    kubelet = agent()
    status = 0
    try:
        with console.status("starting the agent and its runtime server …"):
            kubelet.start()
        _greet(kubelet)
        status = show(kubelet)
    except KeyboardInterrupt:
        pass
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        _end_agent()
    with contextlib.suppress(OSError):  # the terminal may be gone
        console.print("\nThe agent has stopped; its server and the pods run on. `sudo make run` takes them up again.")
    return status


def _greet(kubelet: AgentProcess) -> None:
    console.print(f"The agent runs on [bold]{kubelet.manifests}[/bold]; its log: {kubelet.log}")
    console.print(f"Its runtime server is process {runtime().pid()}; its log: {runtime().home}/root/criserver.log")
    console.print(
        f"Ask it from another terminal: [bold]sudo .venv/bin/pykubelet --socket {kubelet.socket} get pods[/bold]"
    )
    console.print("Ctrl-C stops the agent and leaves the pods running; sudo make clean-run removes every trace.\n")


def _end_agent() -> None:
    """Stop the demo's agent, even if it outlived its screen; its server and pods keep running."""
    config = f"{HOME}/agent/config.yaml".encode()
    deadline = time.monotonic() + STOP_SECONDS
    told: set[tuple[int, signal.Signals]] = set()
    while agents := [pid for pid, command in _commands() if config in command and b"run" in command]:
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for pid in agents:
            # Only once: a second signal would shorten the agent's shutdown.
            if (pid, number) not in told:
                told.add((pid, number))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        time.sleep(0.05)


def _commands() -> Iterator[tuple[int, list[bytes]]]:
    """Every living process with its command line; zombies have none."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with contextlib.suppress(OSError):
                yield int(directory.name), (directory / "cmdline").read_bytes().split(b"\0")


def show(kubelet: AgentProcess) -> int:
    """The live screen: a table of pods, and the newest log lines of the demo pod; returns when the agent has ended."""
    tails: dict[str, deque[str]] = {}
    with Live(console=console, auto_refresh=False) as live:
        while kubelet.process is not None and kubelet.process.poll() is None:
            with contextlib.suppress(PykubeletError):
                live.update(screen(kubelet.api, tails), refresh=True)
            time.sleep(REFRESH_SECONDS)
    console.print("[red]the agent has ended:[/red]")
    console.print(kubelet.log_tail(2000), markup=False, highlight=False)
    return 1


def screen(api: LocalApi, tails: dict[str, deque[str]]) -> Group:
    """Render the current state of the node."""
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"):
        table.add_column(heading)
    pods = [from_builtins(item, Pod) for item in api.get("/api/v1/pods")["items"]]
    for pod in pods:
        row = pod_row(pod, time.time())
        style = "green" if row.status == "Running" else "yellow"
        cells = (row.namespace, row.name, row.ready, Text(row.status, style), row.restarts, age(row.age_seconds))
        table.add_row(*cells, row.ip)
    return Group(table, *(_log_panel(api, pod) for pod in pods))


def _log_panel(api: LocalApi, pod: Pod) -> Panel:
    """The last log lines of the pod's last container, which is the one that prints in the demo."""
    container = pod.spec.containers[-1].name
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"
    try:
        lines = b"".join(api.lines(path, container=container, tailLines=LOG_LINES)).decode(errors="replace")
    except PykubeletError as error:
        lines = str(error)
    return Panel(Text(lines.rstrip() or "(no output yet)"), title=f"log of {pod.metadata.name}/{container}")


def down() -> int:
    """Stop the agent, remove the pods, the runtime and every file of the demo."""
    if os.geteuid() != 0:
        console.print("[red]make clean-run needs root: sudo make clean-run[/red]")
        return 1
    _end_agent()
    kubelet = agent()
    runtime().destroy()
    kubelet.destroy()
    with contextlib.suppress(OSError):
        HOME.rmdir()
    console.print("every trace of the demo is gone")
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["up"]:
            sys.exit(up())
        case ["down"]:
            sys.exit(down())
        case _:
            sys.exit("usage: python -m tools.demo up|down")
