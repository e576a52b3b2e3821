"""The resources of a run (three private runtimes, directories, cgroups) and their removal."""

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import WHOLE
from benchmarks.go_kubelet import GoKubelet
from benchmarks.manifests import IMAGE
from benchmarks.observer import remove_sandboxes
from benchmarks.podman import Podman
from benchmarks.subjects import Agent, kill_strays
from pykubelet.base.errors import Conflict, Permanent, PykubeletError
from pykubelet.kubelet.actuate.cri import CriClient
from pykubelet.testing.containerd import PrivateContainerd
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import remove_cgroups, remove_files, remove_mounts

# Fixed names, so that a run finds the leftovers of a killed one; the lock prevents concurrent runs.
_HOME = Path("/tmp/pykubelet-bench")
_LOCK = "\0pykubelet-bench"
"""An abstract unix socket name."""
_CGROUPS = (
    *("/pkbench-agent", "/pkbench-go", "/pkbench-bare", "/pkbench-whole"),
    *("/pkbench-node", "/pkbench-gonode"),
)
_REMOVAL_SECONDS = 90.0
SHIM = "shim"
"""Handler of our server for the shim that containerd uses."""


@dataclass(frozen=True, slots=True)
class World:
    """The resources of one run."""

    agents: PrivateContainerd
    """The runtime of the agents, one after the other."""
    bare: PrivateContainerd
    """The runtime of the bare CRI calls: an agent would kill their pods as orphans."""
    server: PrivateCriServer
    """``pykubelet criserver``, compared with ``bare``."""
    agent: Agent
    whole: Agent
    """The agent on ``pykubelet criserver``."""
    go: GoKubelet | None
    podman: Podman
    """Removed with the rest; the part that measures it creates it."""

    @property
    def home(self) -> Path:
        """Directory for further parts; it is removed at the end."""
        return _HOME

    @property
    def node_cgroups(self) -> tuple[str, str]:
        """Cgroups of the agent and of the peer as nodes of an API server."""
        return _CGROUPS[4], _CGROUPS[5]

    @property
    def bare_directory(self) -> Path:
        return _HOME / "bare-pods"

    @property
    def bare_cgroup(self) -> str:
        return _CGROUPS[2]


@contextlib.contextmanager
def world(go_binary: Path | None, *, in_memory: bool = False) -> Iterator[World]:
    """Create the resources, with their files in memory if wanted, and remove them at the end.

    Conflict: another benchmark runs. Permanent: a tmpfs cannot be mounted.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(_LOCK)
        except OSError:
            raise Conflict("another benchmark runs on this machine; wait for its end") from None
        agents = PrivateContainerd(_HOME / "a", "pkbench0", "10.197.0.0/20")
        bare = PrivateContainerd(_HOME / "b", "pkbench1", "10.197.16.0/20")
        server = PrivateCriServer(_HOME / "c", "pkbench2", "10.197.32.0/20", handlers={SHIM: "containerd-shim-runc-v2"})
        agent = Agent(_HOME / "agent", agents.socket, _CGROUPS[0])
        whole = Agent(_HOME / "whole", server.socket, _CGROUPS[3], WHOLE)
        go = GoKubelet(go_binary, _HOME / "go", agents.socket, _CGROUPS[1]) if go_binary else None
        made = World(agents, bare, server, agent, whole, go, Podman(_HOME / "podman"))
        _remove(made)
        try:
            if in_memory:
                _mount_memory()
            for runtime in (agents, bare, server):
                runtime.start()
                runtime.load(ImageSpec(IMAGE))
            yield made
        finally:
            _remove(made)


def _remove(made: World) -> None:
    """Remove the agents first, then the pods through the runtime, which releases their network, then the runtimes."""
    made.agent.destroy()
    made.whole.destroy()
    if made.go is not None:
        made.go.destroy()
    made.podman.destroy()
    for runtime in (made.agents, made.bare, made.server):
        if runtime.pid() is not None:
            with contextlib.suppress(PykubeletError, TimeoutError):
                asyncio.run(_remove_pods(runtime.endpoint))
        runtime.destroy()
    kill_strays(_HOME)
    for cgroup in _CGROUPS:
        remove_cgroups(cgroup)
    # Volumes of the nodes of a killed run.
    remove_mounts(_HOME)
    if _HOME.is_mount():
        subprocess.run(["umount", "-l", _HOME], capture_output=True)
    remove_files(_HOME)


def _mount_memory() -> None:
    _HOME.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", _HOME], capture_output=True, text=True, errors="replace"
    )
    if done.returncode:
        raise Permanent(f"{_HOME}: cannot mount a tmpfs: {done.stderr.strip()}; run without --tmpfs")


async def _remove_pods(endpoint: str) -> None:
    async with asyncio.timeout(_REMOVAL_SECONDS), CriClient.connect(endpoint) as client:
        await remove_sandboxes(client)
