"""A common interface of the measured agents: this project's agent and, if given, the Go kubelet as a peer."""

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
"""Limit of pods per node; high, because an agent may still count pods that have just been removed."""

Builder = Callable[[str], list[Manifest]]


class Subject(ABC):
    """An agent that runs the manifests of a directory."""

    label: str
    """Name of the subject, one of `figures.SUBJECTS`."""
    volumes: Builder
    """Builder of the pod for the figures ``start.volumes``."""

    @property
    @abstractmethod
    def manifests(self) -> Path:
        """Path of the manifest directory."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """PID of the agent."""

    @abstractmethod
    def start(self) -> None:
        """Start the agent; returns when it is ready for manifests. Blocking."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the agent; its pods keep running. Blocking."""

    @abstractmethod
    def destroy(self) -> None:
        """Stop the agent and remove its files and cgroups; works after any crash."""

    @abstractmethod
    def pods_as_seen(self) -> AsyncIterator[Manifest]:
        """Yield a pod with its status whenever one has changed, as seen by a client of the agent; never ends."""

    def write(self, name: str, documents: list[Manifest]) -> int:
        """Write a manifest atomically (rename); returns the wall clock time just before, in nanoseconds."""
        target = self.manifests / f"{name}.yaml"
        temporary = self.manifests / f".{name}.tmp"
        temporary.write_text("\n---\n".join(json.dumps(document) for document in documents))
        moment = time.time_ns()
        temporary.rename(target)
        return moment

    def remove_manifests(self) -> None:
        """Remove every manifest."""
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

    def log_of(self, pod: str) -> Path | None:
        """Path of the log of the first start of the pod's container ``main``; None before that."""
        return next(self._process.pod_logs.glob(f"*_{pod}-{NODE}_*/main/0.log"), None)

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        if self._process.process is not None:
            self._process.stop()
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait(10)
            self._proxy = None

    def command(self, *words: str) -> list[str]:
        """Return the command line of ``pykubelet`` with these words, for this agent."""
        return [sys.executable, "-m", "pykubelet.cli", "--socket", str(self._process.socket), *words]

    def restart_without_events(self) -> None:
        """Restart the agent behind a proxy that hides the runtime's event streams. Blocking."""
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
            # HTTP 1.0, so that the response is not chunked: one event per line.
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
    """Kill the processes of a killed run: those with the run's directory in their command line."""
    mark = f"{home}/".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
