"""Parse containerd's log for the calls that it finished and the calls that it aborted.

containerd 1.6 undoes a call whose client disconnects. A container whose StartContainer is in progress when the agent is
killed may have run for a moment before the next agent starts its successor. Or it is never removed, since containerd
neither stops it (its record says that it has exited) nor removes it (its task exists). And a shim may never exit if its
sandbox or one of its containers was being started then. The agent cannot repair this (nor can the Go kubelet), so
the tests must distinguish these cases from all others.
"""

import contextlib
import os
import re
import signal
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from pykubelet.testing.agent import wait_for
from pykubelet.testing.runtime import PrivateRuntime

_SANDBOX = re.compile(r'RunPodSandbox for &PodSandboxMetadata\{[^}]*Uid:([^,]*),[^}]*\} returns sandbox id \\"(\w+)\\"')
_CONTAINER = re.compile(
    r'CreateContainer within sandbox \\"(\w+)\\" for &ContainerMetadata\{Name:([^,]*),[^}]*\}'
    r' returns container id \\"(\w+)\\"'
)
_START = re.compile(r'StartContainer for \\"(\w+)\\"( returns successfully)?')
_REMOVED = re.compile(r'RemovePodSandbox \\"(\w+)\\" returns successfully')
_REFUSED = re.compile(r'RemoveContainer for \\"(\w+)\\" failed.*cannot delete running task')

_EXIT_SECONDS = 3.0
"""Within this time a shim ends after its sandbox."""


@dataclass(frozen=True, slots=True)
class Starts:
    """Starts of one container of a pod, by container id."""

    begun: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)

    @property
    def broken_off(self) -> set[str]:
        """Starts that were in progress when the agent was killed (or that failed)."""
        return self.begun - self.acknowledged


@dataclass(frozen=True, slots=True)
class CallLog:
    """All calls of a containerd so far."""

    sandboxes: dict[str, str]
    """Pod uid by sandbox id; sandboxes whose creation was aborted are missing."""
    starts: dict[tuple[str, str], Starts]
    """Starts by pod uid and container name."""
    damaged: set[str] = field(default_factory=set)
    """Sandboxes in which a start was aborted."""
    stuck: dict[str, str] = field(default_factory=dict)
    """Sandboxes of running containers that containerd has recorded as exited and cannot remove."""
    removed: set[str] = field(default_factory=set)
    """Sandboxes that containerd has reported as removed."""

    @classmethod
    def of_daemon(cls, daemon: PrivateRuntime) -> "CallLog":
        """Parse the daemon's log; empty for ``pykubelet criserver``, which finishes every call."""
        if daemon.name != "containerd":
            return cls({}, {})
        path = daemon.home / "containerd.log"
        sandboxes: dict[str, str] = {}
        containers: dict[str, tuple[str, str]] = {}
        homes: dict[str, str] = {}
        starts: dict[tuple[str, str], Starts] = defaultdict(Starts)
        refused: set[str] = set()
        removed: set[str] = set()
        for line in path.read_text(errors="replace").splitlines():
            if found := _SANDBOX.search(line):
                sandboxes[found[2]] = found[1]
            elif found := _CONTAINER.search(line):
                containers[found[3]] = (sandboxes.get(found[1], ""), found[2])
                homes[found[3]] = found[1]
            elif found := _REFUSED.search(line):
                refused.add(found[1])
            elif found := _REMOVED.search(line):
                removed.add(found[1])
            elif found := _START.search(line):
                of = starts[containers.get(found[1], ("", ""))]
                (of.acknowledged if found[2] else of.begun).add(found[1])
        broken_off = {container for each in starts.values() for container in each.broken_off}
        damaged = {homes[container] for container in broken_off if container in homes}
        stuck = {each: homes[each] for each in refused if each in homes}
        return cls(sandboxes, starts, damaged, stuck, removed)

    def of(self, uid: str, container: str) -> Starts:
        """Starts of one container."""
        return self.starts.get((uid, container), Starts())


def shims(daemon: PrivateRuntime) -> dict[str, int]:
    """PIDs of containerd's shims by sandbox id."""
    found = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with contextlib.suppress(OSError):
                words = (directory / "cmdline").read_bytes().decode().split("\0")
                if "containerd-shim" in words[0] and str(daemon.socket) in words:
                    found[words[words.index("-id") + 1]] = int(directory.name)
    return found


def end_stuck_containers(daemon: PrivateRuntime) -> int:
    """Kill the programs of containers that containerd neither stops nor removes; returns their number.

    Their pods cannot be removed before that. An operator of such a node does the same, or restarts containerd.
    """
    stuck = CallLog.of_daemon(daemon).stuck
    ended = set()
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            with contextlib.suppress(OSError):
                groups = (directory / "cgroup").read_text(errors="replace")
                found = next((container for container in stuck if container in groups), None)
                if found is not None:
                    os.kill(int(directory.name), signal.SIGKILL)
                    ended.add(found)
    return len(ended)


def end_lost_shims(daemon: PrivateRuntime) -> int:
    """Kill the shims that containerd leaked, after all pods are gone; returns their number.

    A shim is leaked if the call that started it was aborted, or if it still runs some seconds after containerd has
    reported its sandbox as removed: containerd 1.6 loses the end of a sandbox that it was about to stop when it ended
    itself.
    """
    if daemon.name != "containerd":
        return 0
    with contextlib.suppress(AssertionError):
        wait_for(lambda: not shims(daemon), _EXIT_SECONDS, str)
    calls = CallLog.of_daemon(daemon)
    lost = [
        pid
        for box, pid in shims(daemon).items()
        if box not in calls.sandboxes or box in calls.damaged or box in calls.removed
    ]
    for pid in lost:
        os.kill(pid, signal.SIGKILL)
    return len(lost)
