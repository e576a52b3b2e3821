"""Faults of daemons and monitors: killed, stopped, out of a resource. Each act injects on entry, heals on exit."""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.faults.cage import cage
from benchmarks.faults.model import Subject
from benchmarks.faults.node import Node
from pykubelet.base.errors import Permanent, PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.testing.agent import wait_for

_OOM_BYTES = 4 << 20
_OUTPUT_BYTES = 15_000_000
_DEATH_SECONDS = 20.0
Pid = Callable[[Node], int | None]


def agent_pid(node: Node) -> int | None:
    return node.agent.pid


def runtime_pid(node: Node) -> int | None:
    return node.runtime.pid()


def _require(pid: int | None) -> int:
    if pid is None:
        raise Permanent("the daemon that the fault is for does not run")
    return pid


@contextlib.contextmanager
def agent_killed(node: Node) -> Iterator[None]:
    node.agent.kill()
    yield
    node.start_agent()


@contextlib.contextmanager
def runtime_killed(node: Node) -> Iterator[None]:
    node.runtime.signal(signal.SIGKILL)
    yield
    node.start_runtime()


@contextlib.contextmanager
def both_killed(node: Node) -> Iterator[None]:
    node.runtime.signal(signal.SIGKILL)
    node.agent.kill()
    yield
    node.start_runtime()
    node.start_agent()


@contextlib.contextmanager
def both_killed_while_busy(node: Node) -> Iterator[None]:
    """Both daemons are killed while they create one pod and remove another."""
    node.roll()
    time.sleep(node.chance.uniform(0.0, 0.3))
    with both_killed(node):
        yield


def stopped(which: Pid) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """A process gets SIGSTOP for the time in the options."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        pid = _require(which(node))
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
            time.sleep(node.options.stop_seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    return act


@contextlib.contextmanager
def runtime_out_of_memory(node: Node) -> Iterator[None]:
    """The output of a command exceeds the daemon's memory limit, so that the kernel OOM-kills the daemon."""
    victim = ContainerID(node.containers(node.victim)["main"])

    async def print_much(client: CriClient) -> None:
        await client.exec_sync(victim, ["head", "-c", str(_OUTPUT_BYTES), "/dev/zero"], 10)

    with cage("memory", f"{node.agent.cgroup_root}-oom", _require(node.runtime.pid()), _OOM_BYTES):
        with contextlib.suppress(PykubeletError, TimeoutError):
            node.call(print_much, 15.0)
        wait_for(lambda: node.runtime.pid() is None, _DEATH_SECONDS, lambda: "the kernel did not kill the daemon")
        yield
    node.start_runtime()


def no_processes(which: Pid) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """A process is in a cgroup whose limit of processes and threads is already reached."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        pid = _require(which(node))
        threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
        with cage("pids", f"{node.agent.cgroup_root}-pids", pid, threads):
            yield

    return act


def no_descriptors(which: Pid) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """A process has a limit of open files that is already reached."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        pid = _require(which(node))
        taken = {int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir()}
        lowest = next(number for number in range(len(taken) + 1) if number not in taken)
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_NOFILE, before)

    return act


@contextlib.contextmanager
def container_killed(node: Node) -> Iterator[None]:
    """The first process of the victim's container gets SIGKILL."""
    _kill(container_pid(node))
    yield


@contextlib.contextmanager
def monitor_killed(node: Node) -> Iterator[None]:
    """conmon, or the pod's shim, gets SIGKILL."""
    _kill(monitor_pid(node))
    yield


@contextlib.contextmanager
def monitor_and_container_killed(node: Node) -> Iterator[None]:
    """Monitor and container get SIGKILL, so that no process can report the container's exit."""
    inside = container_pid(node)
    with monitor_killed(node), contextlib.suppress(ProcessLookupError):
        _kill(inside)
        yield


@contextlib.contextmanager
def infra_killed(node: Node) -> Iterator[None]:
    """The process that holds the pod's namespaces gets SIGKILL: the first process of a shared PID namespace."""
    inside = container_pid(node)
    namespace = _pid_namespace(inside)
    _kill(_find(lambda _: True, lambda pid: _namespace_pid(pid) == 1 and _pid_namespace(pid) == namespace))
    yield


def monitor_pid(node: Node) -> int:
    """The monitor of the victim's container: conmon, or the pod's shim. Permanent: it was not found."""
    identity = node.containers(node.victim)["main"].encode()
    if node.subject is Subject.OURS:
        return _find(lambda command: b"conmon" in command and identity in command)
    return _parent(container_pid(node))


def container_pid(node: Node) -> int:
    """The first process of the victim's container, by its cgroup."""
    identity = node.containers(node.victim)["main"].encode()

    def belongs(pid: int) -> bool:
        return identity in Path(f"/proc/{pid}/cgroup").read_bytes()

    return _find(lambda command: command.startswith(b"sh\0-c\0"), belongs)


def _find(command: Callable[[bytes], bool], further: Callable[[int], bool] = lambda _: True) -> int:
    """The lowest PID whose command line fulfils the condition. Permanent: no process does."""
    for pid in sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()):
        with contextlib.suppress(OSError):
            if command(Path(f"/proc/{pid}/cmdline").read_bytes()) and further(pid):
                return pid
    raise Permanent("the process that the fault is for was not found")


def _pid_namespace(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/pid").stat().st_ino


def _status(pid: int, name: str) -> list[str]:
    lines = Path(f"/proc/{pid}/status").read_bytes().decode(errors="replace").splitlines()
    return next(line.split()[1:] for line in lines if line.startswith(f"{name}:"))


def _namespace_pid(pid: int) -> int:
    """The PID of a process in its own PID namespace."""
    return int(_status(pid, "NSpid")[-1])


def _parent(pid: int) -> int:
    return int(_status(pid, "PPid")[0])


def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
