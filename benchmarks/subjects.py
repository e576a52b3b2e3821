"""The agents that are measured, behind one face: this project's, and the Go kubelet as a peer where there is one."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import AGENT, POLLING
from benchmarks.manifests import Manifest, with_volumes
from benchmarks.observer import NODE
from pykubelet.testing.agent import AgentProcess, environment, wait_for

_LINE_LIMIT = 4 << 20
MAX_PODS = 500
"""An agent may still count pods that have just been removed; none may be rejected for that."""

Builder = Callable[[str], list[Manifest]]


class Subject(ABC):
    """An agent that runs the manifests of a directory."""

    label: str
    """One of `figures.SUBJECTS`."""
    volumes: Builder
    """The pod for the figures ``start.volumes``."""

    @property
    @abstractmethod
    def manifests(self) -> Path:
        """The directory."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Its process."""

    @abstractmethod
    def start(self) -> None:
        """Start it; returns when it is ready for manifests. Blocking."""

    @abstractmethod
    def stop(self) -> None:
        """End it; its pods run on. Blocking."""

    @abstractmethod
    def destroy(self) -> None:
        """End it and remove its files and cgroups; works after any crash."""

    @abstractmethod
    def pods_as_seen(self) -> AsyncIterator[Manifest]:
        """The pods with their status whenever one has changed, as a client of the agent sees them; for ever."""

    def write(self, name: str, documents: list[Manifest]) -> int:
        """Put a manifest into the directory in one move; the wall clock just before, in nanoseconds."""
        target = self.manifests / f"{name}.yaml"
        temporary = self.manifests / f".{name}.tmp"
        temporary.write_text("\n---\n".join(json.dumps(document) for document in documents))
        moment = time.time_ns()
        temporary.rename(target)
        return moment

    def remove_manifests(self) -> None:
        """Take every manifest away."""
        for path in self.manifests.iterdir():
            path.unlink()


class Agent(Subject):
    """This project's agent, ``pykubelet run``."""

    volumes = staticmethod(with_volumes)

    def __init__(
        self, home: Path, socket: Path, cgroup: str, label: str = AGENT, kubeconfig: Path | None = None
    ) -> None:
        self.label = label
        self._home = home
        self._socket = socket
        flags = ("--kubeconfig", str(kubeconfig)) if kubeconfig else ()
        self._process = AgentProcess(home, f"unix://{socket}", cgroup, NODE, {"maxPods": MAX_PODS}, flags)
        self._proxy: subprocess.Popen[bytes] | None = None

    @property
    def manifests(self) -> Path:
        return self._process.manifests

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        if self._process.process is not None:
            self._process.stop()
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait(10)
            self._proxy = None

    def restart_without_events(self) -> None:
        """Put a proxy before the runtime that hides its event streams, and start the agent anew. Blocking."""
        self.stop()
        hidden = self._home / "no-events.sock"
        command = [sys.executable, "-m", "benchmarks.no_events", str(hidden), str(self._socket)]
        self._proxy = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, env=environment())
        wait_for(hidden.exists, 20, lambda: "the proxy before the runtime did not come up")
        self._process.endpoint = f"unix://{hidden}"
        self.label = POLLING
        self.start()

    def destroy(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop()
        kill_strays(self._home)
        self._process.destroy()

    async def pods_as_seen(self) -> AsyncIterator[Manifest]:
        reader, writer = await asyncio.open_unix_connection(str(self._process.socket), limit=_LINE_LIMIT)
        try:
            # HTTP 1.0, so that the answer is not cut into chunks: one event a line.
            writer.write(b"GET /api/v1/pods?watch=true HTTP/1.0\r\nHost: localhost\r\n\r\n")
            async for line in reader:
                if line.startswith(b"{"):
                    yield json.loads(line)["object"]
        finally:
            writer.close()


def is_ready(pod: Manifest) -> bool:
    """Whether the pod's condition Ready is true."""
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def kill_strays(home: Path) -> None:
    """Kill processes that a killed run left behind: those with our directory in their command line."""
    mark = f"{home}/".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
