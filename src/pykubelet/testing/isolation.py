"""What one test session has for itself: a directory, a bridge, addresses and a cgroup; and the end of sessions killed.

Everything is named after one short random id, so that sessions live side by side on one machine. The directory holds a
note of who owns it: a later session finds the note, sees that the owner is dead, and removes what it left.
"""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from pykubelet.base.errors import Permanent
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.traces import kill_processes, remove_cgroups, remove_mounts

_BASE = Path("/tmp")
_PREFIX = "pkt-"
_OWNER = "owner.json"
_FURTHER = "defkmph"
"""Letters of servers that single test modules have for themselves."""
_SUBNETS = range(1, 255)


@dataclass(frozen=True, slots=True)
class Isolation:
    """One session's own things; ``pid`` and ``started`` (kernel ticks) tell its owner from a later process."""

    id: str
    subnet: str
    pid: int
    started: int

    @property
    def home(self) -> Path:
        """The directory of everything; short, because socket paths are limited."""
        return _BASE / f"{_PREFIX}{self.id}"

    @property
    def bridge(self) -> str:
        return f"pkt{self.id}"

    @property
    def cgroup_root(self) -> str:
        return f"/pktest-{self.id}"

    def containerd(self) -> PrivateContainerd:
        """The session's containerd; not started. It and the server of our own share bridge and addresses, so only one
        of them may run at a time."""
        return PrivateContainerd(self.home / "c", self.bridge, self.subnet)

    def criserver(self) -> PrivateCriServer:
        """The session's runtime server of our own; not started."""
        return PrivateCriServer(self.home / "s", self.bridge, self.subnet)

    def further_subnet(self, letter: str, length: int = 24) -> str:
        """Addresses for the further server of that letter, whose directory, bridge and cgroup end with it."""
        return f"10.{201 + _FURTHER.index(letter)}.{self.subnet.split('.')[2]}.0/{length}"

    @property
    def node_address(self) -> str:
        """An address for a node. API servers since 1.22 pass nothing on to a node on a loopback address."""
        return f"10.220.{self.subnet.split('.')[2]}.1"

    def add_node_address(self) -> str:
        """Give the machine :attr:`node_address`, reachable from itself only."""
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
        shutil.rmtree(self.home, ignore_errors=True)


def claim() -> Isolation:
    """Things that no other living session has, after the leftovers of dead ones are removed."""
    with _locked():
        others = list(_sessions())
        for session in others:
            if _started(session.pid) != session.started:
                session.destroy()
        taken = {session.subnet for session in others}
        pid = os.getpid()
        mine = Isolation(secrets.token_hex(2), _free_subnet(taken, pid), pid, _started(pid) or 0)
        # Containers with a user namespace of their own walk through it as nobody.
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
    """When a process started, in kernel ticks; None if there is none."""
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
