"""``make run``: the agent on ``examples/`` over a private containerd, with a live screen; ``make clean-run`` undoes it.

Everything of the demo lives below one folder; the runtime, its bridge and its cgroups carry the demo's name.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.columns import age
from pykubelet.cli.local_api import LocalApi
from pykubelet.cli.podview import pod_row
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.ociimage import ImageSpec

HOME = Path("/var/lib/pykubelet-demo")
IMAGE = "localhost/pykubelet/demo:1"
CGROUP = "/pykubelet-demo"
LOG_LINES = 12
REFRESH_SECONDS = 0.5

console = Console()


def runtime() -> PrivateContainerd:
    """The demo's containerd."""
    return PrivateContainerd(HOME / "ctrd", "pkdemo0", "10.89.77.0/24")


def agent() -> AgentProcess:
    """The demo's agent, on the project's examples."""
    return AgentProcess(
        home=HOME / "agent",
        endpoint=runtime().endpoint,
        cgroup_root=CGROUP,
        node_name="demo-node",
        manifest_dir=Path(__file__).resolve().parent.parent / "examples",
    )


def up() -> int:
    """Start what does not run yet and show it until Ctrl-C; the pods run on afterwards."""
    if os.geteuid() != 0:
        console.print("[red]make run needs root: sudo make run[/red]")
        return 1
    with console.status("starting a private containerd and packing the demo image …"):
        runtime().start()
        runtime().load(ImageSpec(IMAGE))
    kubelet = agent()
    with console.status("starting the agent …"):
        kubelet.start()
    socket = kubelet.api.path
    console.print(f"The agent runs on [bold]{kubelet.manifests}[/bold]; its log: {kubelet.log}")
    console.print(f"Ask it from another terminal: [bold].venv/bin/pykubelet --socket {socket} get pods[/bold]")
    console.print("Ctrl-C stops the agent and leaves the pods running; sudo make clean-run removes every trace.\n")
    try:
        show(kubelet)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        kubelet.stop()
    console.print("\nThe agent has stopped; the pods run on. `sudo make run` takes them up again.")
    return 0


def show(kubelet: AgentProcess) -> None:
    """The live screen: a table of pods, and the newest log lines of the demo pod."""
    tails: dict[str, deque[str]] = {}
    with Live(console=console, auto_refresh=False) as live:
        while kubelet.process is not None and kubelet.process.poll() is None:
            with contextlib.suppress(PykubeletError):
                live.update(screen(kubelet.api, tails), refresh=True)
            time.sleep(REFRESH_SECONDS)
    console.print(f"[red]the agent has ended:[/red]\n{kubelet.log_tail(2000)}")


def screen(api: LocalApi, tails: dict[str, deque[str]]) -> Group:
    """One picture of the node."""
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
    """The last lines of the pod's last container, which is the one that talks in the demo."""
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
    pattern = str(HOME / "agent" / "config.yaml")
    subprocess.run(["pkill", "-TERM", "-f", pattern], check=False)
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
