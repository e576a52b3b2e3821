"""Runs in the emulated machine: one process per question, which waits there, because starting Python takes seconds.

Arguments and results are JSON. It imports little, for the same reason.
"""

import http.client
import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SOCKET = "/run/pykubelet/agent.sock"
_CGROUPS = Path("/sys/fs/cgroup")
_POLL_SECONDS = 0.3


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(_SOCKET)


def get(path: str) -> Any:
    """The agent's answer to a request on its local socket."""
    connection = _Connection("localhost", timeout=120)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def container(name: str) -> dict[str, Any]:
    """Phase of a pod, by its name in the manifest, and the id, state and restarts of its container. Empty: no such pod,
    or no agent yet."""
    try:
        items = get("/api/v1/pods")["items"]
    except (OSError, http.client.HTTPException):
        return {}
    for pod in items:
        if pod["metadata"]["name"].startswith(f"{name}-"):
            (status,) = pod["status"].get("containerStatuses") or [{}]
            ((state, details),) = (status.get("state") or {"waiting": {}}).items()
            return {
                "phase": pod["status"].get("phase"),
                "uid": pod["metadata"]["uid"],
                "id": status.get("containerID", "").partition("://")[2],
                "state": state,
                "reason": details.get("reason", ""),
                "exit_code": details.get("exitCode"),
                "message": pod["status"].get("message", ""),
                "pod_reason": pod["status"].get("reason", ""),
            }
    return {}


def wait_container(name: str, state: str, other_than: str = "", seconds: float = 300.0) -> dict[str, Any]:
    """Wait for a container in that state, with another id than ``other_than``; the container, or the last seen one."""
    found: dict[str, Any] = {}

    def holds() -> bool:
        found.clear()
        found.update(container(name))
        return found.get("state") == state and found["id"] != other_than

    _until(holds, seconds)
    return found


def wait_gone(*names: str, seconds: float = 300.0) -> list[str]:
    """Wait until the agent does not have these pods; those that it still has."""
    left: list[str] = []

    def gone() -> bool:
        left[:] = [name for name in names if container(name)]
        return not left

    _until(gone, seconds)
    return left


def cgroup_of(identity: str) -> dict[str, Any]:
    """Path of a container's cgroup, its first process, and the content of the control files in it and above."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                path = (directory / "cgroup").read_text().strip().rpartition("::")[2]
            except OSError:
                continue
            if identity in path:
                return {"path": path, "pid": int(directory.name), "files": _files(path), "above": _above(path)}
    return {}


def usage_and_cgroup(name: str, identity: str) -> dict[str, Any]:
    """What the agent measures of the pod's container, and what the cgroup has just before and just after."""
    path = cgroup_of(identity)["path"]
    # With crun the container is in a child of its scope; the usage is the scope's.
    scope = "/".join(path.split("/")[: path.split("/").index(next(p for p in path.split("/") if identity in p)) + 1])
    before = _usage(scope)
    pods = [pod for pod in get("/pykubelet/v1/usage")["pods"] if pod["podRef"]["name"].startswith(f"{name}-")]
    return {"before": before, "measured": pods[0]["containers"][0], "after": _usage(scope)}


def _usage(path: str) -> dict[str, int]:
    files = _CGROUPS / path.lstrip("/")
    memory = dict(line.split() for line in (files / "memory.stat").read_text().splitlines())
    cpu = dict(line.split() for line in (files / "cpu.stat").read_text().splitlines())
    current = int((files / "memory.current").read_text())
    return {
        "cpu_ns": int(cpu["usage_usec"]) * 1000,
        "usage": current,
        "working_set": current - int(memory["inactive_file"]),
        "rss": int(memory["anon"]),
        "faults": int(memory["pgfault"]),
    }


def _files(path: str) -> dict[str, str]:
    directory = _CGROUPS / path.lstrip("/")
    names = ("memory.max", "cpu.max", "cpu.weight", "pids.max", "memory.oom.group")
    return {name: (directory / name).read_text().strip() for name in names if (directory / name).exists()}


def _above(path: str) -> dict[str, dict[str, str]]:
    parts = path.strip("/").split("/")
    return {parts[depth - 1]: _files("/".join(parts[:depth])) for depth in range(1, len(parts))}


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    print(json.dumps(globals()[sys.argv[1]](*given["arguments"], **given["named"])))
