"""The private resources of a test session (directory, bridge, addresses, cgroup), and the removal of dead sessions.

All names contain one short random id, so that several sessions can run on one machine. A file in the directory
identifies the owning process: a later session reads it, finds that the owner is dead, and removes the leftovers.
"""

import contextlib
import fcntl
import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pykubelet.base.errors import Permanent
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.traces import kill_processes, remove_cgroups, remove_files, remove_mounts

_BASE = Path("/tmp")
_PREFIX = "pkt-"
_OWNER = "owner.json"
_FURTHER = "defkmphoqtrgi"
"""Letters of the further servers that single test modules start."""
_SUBNETS = range(1, 255)


@dataclass(frozen=True, slots=True)
class Isolation:
    """The resources of one session; ``pid`` and ``started`` (kernel ticks) identify the owning process."""

    id: str
    subnet: str
    pid: int
    started: int

    @property
    def home(self) -> Path:
        """The session's directory; its path is short because the length of socket paths is limited."""
        return _BASE / f"{_PREFIX}{self.id}"

    @property
    def bridge(self) -> str:
        return f"pkt{self.id}"

    @property
    def cgroup_root(self) -> str:
        return f"/pktest-{self.id}"

    def containerd(self) -> PrivateContainerd:
        """The session's containerd; not started. It shares bridge and addresses with ``criserver``, so only one
        of them may run at a time."""
        return PrivateContainerd(self.home / "c", self.bridge, self.subnet)

    def criserver(self) -> PrivateCriServer:
        """The session's ``pykubelet criserver``; not started."""
        return PrivateCriServer(self.home / "s", self.bridge, self.subnet)

    def further_subnet(self, letter: str, length: int = 24) -> str:
        """Address range of the further server with that letter, which is also the last letter of its other names."""
        return f"10.{201 + _FURTHER.index(letter)}.{self.subnet.split('.')[2]}.0/{length}"

    @property
    def node_address(self) -> str:
        """An address for a node. API servers since 1.22 do not proxy requests to nodes on a loopback address."""
        return f"10.220.{self.subnet.split('.')[2]}.1"

    def add_node_address(self) -> str:
        """Add :attr:`node_address` to the machine, reachable only from the machine itself."""
        _ip("addr", "replace", f"{self.node_address}/32", "dev", "lo").check_returncode()
        return self.node_address

    def destroy(self) -> None:
        """Remove every trace; works after any crash."""
        self.containerd().destroy()
        self.criserver().destroy()
        for letter in _FURTHER:
            PrivateCriServer(self.home / letter, f"{self.bridge}{letter}", "").destroy()
            remove_cgroups(f"{self.cgroup_root}-{letter}")
        kill_processes(self.home)
        _ip("addr", "delete", f"{self.node_address}/32", "dev", "lo")
        remove_mounts(self.home)
        remove_cgroups(self.cgroup_root)
        remove_files(self.home)


def claim() -> Isolation:
    """Remove the leftovers of dead sessions and create the resources of a new one."""
    with _locked():
        others = list(_sessions())
        for session in others:
            if _started(session.pid) != session.started:
                session.destroy()
        taken = {session.subnet for session in others}
        pid = os.getpid()
        mine = Isolation(secrets.token_hex(2), _free_subnet(taken, pid), pid, _started(pid) or 0)
        # Containers with a user namespace traverse it as an unprivileged user.
        mine.home.mkdir(mode=0o711)
        (mine.home / _OWNER).write_text(json.dumps(asdict(mine)))
    return mine


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    with (_BASE / f".{_PREFIX}lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sessions() -> Iterator[Isolation]:
    for note in _BASE.glob(f"{_PREFIX}*/{_OWNER}"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            yield Isolation(**json.loads(note.read_text()))


def _started(pid: int) -> int | None:
    """Start time of a process, in kernel ticks; None if it does not exist."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[19])
    except OSError:
        return None


def _ip(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


def _free_subnet(taken: set[str], seed: int) -> str:
    """A /24 of 10.200.0.0/16 that neither a session nor the machine's routing uses."""
    routes = _ip("-4", "route").stdout
    for step in _SUBNETS:
        number = (seed + step) % len(_SUBNETS) + 1
        subnet = f"10.200.{number}.0/24"
        if subnet not in taken and f"10.200.{number}." not in routes:
            return subnet
    raise Permanent("no free subnet in 10.200.0.0/16; remove leftover bridges with: ip link delete NAME")
