"""A common interface of the agents under test: this project's agent and, if given, the Go kubelet. Blocking."""

import asyncio
import contextlib
import json
import os
import signal
import ssl
import subprocess
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.faults.judge import Status
from benchmarks.go_kubelet import GoKubelet
from benchmarks.observer import NODE
from pykubelet.base.errors import PykubeletError
from pykubelet.testing.agent import AgentProcess
from pykubelet.testing.traces import remove_cgroups, remove_mounts

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_ANSWER_SECONDS = 3.0
_PIDS = 128
"""Limit of the processes of one pod."""


class NodeAgent(ABC):
    """An agent that runs the manifests of a directory."""

    home: Path
    cgroup_root: str

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def manifests(self) -> Path:
        return self.home / "manifests"

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """PID of the agent; None if it does not run."""

    @abstractmethod
    def start(self) -> None:
        """Start the agent; returns when it responds. AssertionError: it does not respond."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the agent with SIGKILL."""

    @abstractmethod
    def statuses(self) -> dict[str, Status]:
        """The agent's pods by their names in the manifests; empty if it does not respond."""

    @abstractmethod
    def destroy(self) -> None:
        """Stop the agent and remove its files and cgroups."""

    @abstractmethod
    def tail(self) -> str:
        """The end of the agent's log."""

    @abstractmethod
    async def connect(self) -> Connection:
        """Connect to the server that runs commands in containers."""

    @abstractmethod
    def exec_path(self, pod: str) -> str:
        """Path and query that run ``cat`` in the container ``main`` of a pod, with its input and output."""

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a manifest atomically (rename)."""
        temporary = self.manifests / f".{name}.tmp"
        temporary.write_text(json.dumps(document))
        temporary.rename(self.manifests / f"{name}.json")

    def remove(self, name: str) -> None:
        """Remove a manifest."""
        (self.manifests / f"{name}.json").unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all manifests."""
        for path in self.manifests.iterdir():
            path.unlink()


class OurAgent(NodeAgent):
    """This project's agent."""

    def __init__(self, home: Path, endpoint: str, cgroup_root: str, module: str, flags: Sequence[str] = ()) -> None:
        self.home = home
        self.cgroup_root = cgroup_root
        self.process = AgentProcess(home, endpoint, cgroup_root, NODE, {"podPidsLimit": _PIDS}, flags, module=module)

    @property
    def pid(self) -> int | None:
        process = self.process.process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        self.process.start()

    def kill(self) -> None:
        self.process.kill()

    def statuses(self) -> dict[str, Status]:
        try:
            return _statuses(self.process.api.get("/api/v1/pods"))
        except (PykubeletError, OSError):
            return {}

    def destroy(self) -> None:
        self.process.destroy()

    async def connect(self) -> Connection:
        return await asyncio.open_unix_connection(str(self.process.socket))

    def exec_path(self, pod: str) -> str:
        query = "command=cat&stdin=true&stdout=true&container=main"
        return f"/api/v1/namespaces/default/pods/{pod}-{NODE}/exec?{query}"

    def tail(self) -> str:
        return self.process.log_tail(3000)


class PeerAgent(NodeAgent):
    """The Go kubelet."""

    def __init__(
        self, binary: Path, home: Path, socket: Path, cgroup_root: str, kubeconfig: Path | None = None
    ) -> None:
        self.home = home
        self.cgroup_root = cgroup_root
        self.process = GoKubelet(binary, home, socket, cgroup_root, kubeconfig, pids=_PIDS, json_only=True, serves=True)

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process.alive else None

    def start(self) -> None:
        self.process.start()

    def kill(self) -> None:
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
        self.process.stop()

    def statuses(self) -> dict[str, Status]:
        try:
            with urllib.request.urlopen(self.process.pods_url, timeout=_ANSWER_SECONDS) as answer:
                return _statuses(json.load(answer))
        except (OSError, ValueError):
            return {}

    def destroy(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.destroy()
        remove_mounts(self.home)
        remove_cgroups(self.cgroup_root)

    async def connect(self) -> Connection:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it has made its certificate itself
        return await asyncio.open_connection("127.0.0.1", self.process.port, ssl=context)

    def exec_path(self, pod: str) -> str:
        return f"/exec/default/{pod}-{NODE}/main?command=cat&input=1&output=1"

    def tail(self) -> str:
        return self.process.log_tail()


def _statuses(listed: Mapping[str, Any]) -> dict[str, Status]:
    found = {}
    for item in listed.get("items") or ():
        status = item.get("status", {})
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
        found[item["metadata"]["name"].removesuffix(f"-{NODE}")] = Status(status.get("phase", ""), ready)
    return found
