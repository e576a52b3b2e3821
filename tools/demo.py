"""``make run``: run the agent on ``examples/`` with a live screen; ``make clean-run`` removes it.

Without a terminal plain lines show the pods and their first log lines. The agent starts its own runtime server. All
files of the demo are below one directory; the names of its bridge and its cgroups contain the demo's name.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.markup import escape

from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.cli.client.agent_socket import LINKS_DIRECTORY, LINKS_VARIABLE, default_socket, link_of
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.cli.live.live_options import LiveOptions
from pykubelet.cli.live.live_terminal import is_interactive
from pykubelet.cli.live.live_view import run_live
from pykubelet.cli.plan.columns import Columns
from pykubelet.cli.plan.pod_row import PodRow, pod_row
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.ociimage import ImageSpec

HOME = Path("/var/lib/pykubelet-demo")
IMAGE = "localhost/pykubelet/demo:1"
CGROUP = "/pykubelet-demo"
FIRST_LINES = 3
REFRESH_SECONDS = 0.5
STOP_SECONDS = 10.0
START_SECONDS = 120.0
RUNNING_SECONDS = 60.0
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDED = ("Succeeded", "Failed")

console = Console(highlight=False)


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """Print one line for a step, with its duration, when it has ended."""
    begin = time.monotonic()
    done = False
    try:
        with console.status(f"{text} …"):
            yield
        done = True
    finally:
        mark = "[green]✓[/green]" if done else "[red]✗[/red]"
        console.print(f"{mark} {text}  {time.monotonic() - begin:.1f} s")


def as_root(command: str) -> str:
    """Return how to run a command as root on this machine, which may have no sudo."""
    return f"sudo {command}" if shutil.which("sudo") else command


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
        console.print(f"[red]make run needs root: {as_root('make run')}[/red]")
        return 1
    _end_agent()
    # Agents of the test kit leave no link by which commands find them; the demo's does.
    os.environ.setdefault(LINKS_VARIABLE, LINKS_DIRECTORY)
    for number in END_SIGNALS:
        # A terminal that closes ends the demo as Ctrl-C does.
        signal.signal(number, _interrupt)
    kubelet = agent()
    status = 0
    try:
        with step("demo image imported"):
            # Running pods keep running while their server is down.
            runtime().stop()
            runtime().write_configuration()
            runtime().load(ImageSpec(IMAGE))
        with step("agent and its runtime server started"):
            kubelet.start(wait=False)
            _wait_until_serving(kubelet)
        with step("pods started"):
            _wait_until_settled(kubelet.api)
        _greet(kubelet)
        status = show(kubelet) if is_interactive() else follow(kubelet)
    except KeyboardInterrupt:
        pass
    except PykubeletError as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 1
    finally:
        _ignore_end_signals()
        _end_agent()
    with contextlib.suppress(OSError):  # the terminal may be gone
        again, remove = as_root("make run"), as_root("make clean-run")
        console.print(f"\nThe agent has stopped; the pods run on.\n{again} takes them up again, {remove} removes them.")
    return status


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt at the first of the signals; a later one would interrupt the demo's end."""
    _ignore_end_signals()
    raise KeyboardInterrupt


def _ignore_end_signals() -> None:
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _wait_until_serving(kubelet: AgentProcess) -> None:
    """Wait until the agent answers. Permanent, with the end of its log: it ended, or takes minutes."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and kubelet.process is not None and kubelet.process.poll() is None:
        with contextlib.suppress(PykubeletError):
            kubelet.api.get("/api/v1/pods")
            return
        time.sleep(0.05)
    raise Permanent(f"the agent did not start; its log ({kubelet.log}) ends:\n{kubelet.log_tail(2000)}")


def _wait_until_settled(api: LocalApi) -> None:
    """Wait until all pods run, at most a minute: what hinders them is shown afterwards."""
    deadline = time.monotonic() + RUNNING_SECONDS
    while time.monotonic() < deadline:
        found = _rows(api)
        if found and all(row.status == "Running" or pod.status.phase in ENDED for row, pod in found):
            return
        time.sleep(0.05)


def _rows(api: LocalApi) -> list[tuple[PodRow, Pod]]:
    return [(pod_row(item, time.time()), from_builtins(item, Pod)) for item in api.get("/api/v1/pods")["items"]]


def _question(kubelet: AgentProcess) -> str:
    """Return the command by which another terminal asks this agent."""
    bin_ = Path(sys.executable).with_name("pykubelet")
    program = bin_.relative_to(Path.cwd()) if bin_.is_relative_to(Path.cwd()) else bin_
    socket = "" if default_socket() == kubelet.socket else f" --socket {kubelet.socket}"
    return as_root(f"{program}{socket} get pods")


def _greet(kubelet: AgentProcess) -> None:
    keys = "q or Ctrl-C stops" if is_interactive() else "Ctrl-C stops"
    lines = (
        ("manifests", f"{kubelet.manifests}  (edit them and watch)"),
        ("ask it", _question(kubelet)),
        ("logs", f"{kubelet.log}, {runtime().home}/root/criserver.log"),
        ("end", f"{keys} the agent, the pods run on; {as_root('make clean-run')} removes everything"),
    )
    for name, text in lines:
        console.print(f"  [bold]{name:<10}[/bold] {escape(text)}", soft_wrap=True)
    console.print()


def _end_agent() -> None:
    """Stop the demo's agent, even if it outlived its screen; its server and pods keep running."""
    config = str(agent().config_file).encode()
    deadline = time.monotonic() + STOP_SECONDS
    notified: set[tuple[int, signal.Signals]] = set()
    while agents := [pid for pid, command in _commands() if config in command and b"run" in command]:
        number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
        for pid in agents:
            # Only once: a second signal would shorten the agent's shutdown.
            if (pid, number) not in notified:
                notified.add((pid, number))
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
    """The live view of the command line; returns when the user or the agent has ended it."""
    hint = f"in another terminal: {_question(kubelet)}"
    if run_live(LiveOptions(kubelet.socket, hint=hint, alive=partial(_lives, kubelet))) is not None:
        return 0  # Ctrl-C, or the terminal is gone
    return 0 if _lives(kubelet) else _report_end(kubelet)


def _lives(kubelet: AgentProcess) -> bool:
    return kubelet.process is not None and kubelet.process.poll() is None


def _report_end(kubelet: AgentProcess) -> int:
    console.print("[red]the agent has ended:[/red]")
    console.print(kubelet.log_tail(2000), markup=False, highlight=False)
    return 1


def follow(kubelet: AgentProcess) -> int:
    """Without a terminal: print the pods, their first log lines, and then what changes; ends with the agent."""
    columns = Columns("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "IP")
    last: dict[str, tuple[str, ...]] = {}
    logged: set[str] = set()
    while _lives(kubelet):
        with contextlib.suppress(PykubeletError):
            for row, pod in _rows(kubelet.api):
                cells = (row.namespace, row.name, row.ready, row.status, row.restarts, row.ip)
                if last.get(row.name) != cells:
                    last[row.name] = cells
                    print(columns.render([cells]), flush=True)
                lines = _log_lines(kubelet.api, pod, FIRST_LINES)
                if row.name not in logged and len(lines) == FIRST_LINES:
                    logged.add(row.name)
                    print("\n".join(f"{row.name}/{pod.spec.containers[-1].name}: {line}" for line in lines), flush=True)
        time.sleep(REFRESH_SECONDS)
    return _report_end(kubelet)


def _log_lines(api: LocalApi, pod: Pod, count: int) -> list[str]:
    container = pod.spec.containers[-1].name
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/log"
    return b"".join(api.lines(path, container=container, tailLines=count)).decode(errors="replace").splitlines()


def down() -> int:
    """Stop the agent, remove the pods, the runtime and every file of the demo."""
    if os.geteuid() != 0:
        console.print(f"[red]make clean-run needs root: {as_root('make clean-run')}[/red]")
        return 1
    _end_agent()
    kubelet = agent()
    if link := link_of(kubelet.socket):
        link.unlink(missing_ok=True)  # an agent that was killed has left it
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
