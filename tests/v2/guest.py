"""Runs in the emulated machine: one process per question, which waits there, because starting Python takes seconds.

Arguments and results are JSON. It imports little, for the same reason.
"""

import asyncio
import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SOCKET = "/run/pykubelet/agent.sock"
_CGROUPS = Path("/sys/fs/cgroup")
_POLL_SECONDS, _REST = 1.0, 3.0
"""Least time between two looks, and their least ratio to the time of a look: the daemons need the processor, too."""
_TRIES = 5
# Read by itself: systemd may take longer than its clients wait to list them in an emulated machine.
_UNITS = ("/etc/systemd/system", "/usr/lib/systemd/system", "/run/systemd/system", "/run/systemd/transient")
_PRESSURES = ("cpu", "memory", "io")
_ID = re.compile(r"[0-9a-f]{64}")
"""The id of a container."""


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
                "details": details.get("message", ""),
                "message": pod["status"].get("message", ""),
                "pod_reason": pod["status"].get("reason", ""),
            }
    return {}


def wait_container(name: str, state: str, other_than: str = "", seconds: float = 1200.0) -> dict[str, Any]:
    """Wait for a container in that state, with another id than ``other_than``; the container, or the last seen one."""
    found: dict[str, Any] = {}

    def holds() -> bool:
        found.clear()
        found.update(container(name))
        return found.get("state") == state and found["id"] != other_than

    _until(holds, seconds)
    return found


def wait_refused(name: str, seconds: float = 1200.0) -> dict[str, Any]:
    """Wait until a pod's container waits and there is a message why; the container, or the last seen one."""
    found: dict[str, Any] = {}

    def holds() -> bool:
        found.clear()
        found.update(container(name))
        return found.get("state") == "waiting" and found["details"] != ""

    _until(holds, seconds)
    return found


def pods(*names: str) -> dict[str, Any]:
    """Of each of these pods that the agent has: uid, phase, reason, and by name its containers, with the first process.

    Names are those in the manifests.
    """
    try:
        items = get("/api/v1/pods")["items"]
    except (OSError, http.client.HTTPException):
        return {}
    processes = _first_processes()
    return {
        name: {
            "uid": pod["metadata"]["uid"],
            "phase": pod["status"].get("phase"),
            "reason": pod["status"].get("reason", ""),
            "containers": {each["name"]: _seen(each, processes) for each in pod["status"].get("containerStatuses", ())},
        }
        for name in names
        for pod in items
        if pod["metadata"]["name"].startswith(f"{name}-")
    }


def wait_running(*names: str, seconds: float = 1200.0) -> dict[str, Any]:
    """Wait until all containers of these pods run; the pods, or the last seen ones."""
    found: dict[str, Any] = {}

    def run() -> bool:
        found.clear()
        found.update(pods(*names))
        containers = [each for pod in found.values() for each in pod["containers"].values()]
        settled = all(pod["phase"] == "Running" and pod["containers"] for pod in found.values())
        return set(found) == set(names) and settled and all(each["pid"] and each["ready"] for each in containers)

    _until(run, seconds)
    return found


def wait_unit(unit: str, other_than: str, seconds: float = 1200.0) -> dict[str, str]:
    """Wait until a unit is active with another main process; its properties, or the last seen ones."""
    names = ("ActiveState", "MainPID", "NRestarts", "StatusText")
    found: dict[str, str] = {}

    def active() -> bool:
        command = ["systemctl", "show", f"--property={','.join(names)}", unit]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        found.update((name, value) for name, _, value in (line.partition("=") for line in lines))
        return found["ActiveState"] == "active" and found["MainPID"] not in ("0", other_than)

    _until(active, seconds)
    return found


def events() -> list[str]:
    """Names of the agent's events."""
    return [each["metadata"]["name"] for each in get("/api/v1/events")["items"]]


def sandboxes(endpoint: str = "unix:///run/pykubelet/criserver/criserver.sock") -> dict[str, int]:
    """Number of ready sandboxes that the runtime server has of each pod, by the name of the pod."""
    from pykubelet.kubelet.actuate.cri import CriClient
    from pykubelet.pb import runtime_v1_pb2 as pb

    async def count() -> dict[str, int]:
        async with CriClient.connect(endpoint) as client:
            listed = await client.list_pod_sandboxes()
            return dict(Counter(each.metadata.name for each in listed if each.state == pb.SANDBOX_READY))

    return asyncio.run(count())


def control_files(path: str, *names: str) -> dict[str, str]:
    """Contents of control files of a cgroup; those that it lacks are left out."""
    directory = _CGROUPS / path.lstrip("/")
    return {name: (directory / name).read_text().strip() for name in names if (directory / name).exists()}


def pressure_and_summary(containers: dict[str, str], port: int) -> dict[str, Any]:
    """Pressure of the node, of pods (name in the manifest → id of its container) and of their containers.

    ``before`` and ``after`` are the totals in the control files, ``measured`` is what ``/stats/summary`` of the kubelet
    API's read-only port had in between.
    """
    files = {"node": Path("/proc/pressure")}
    for name, identity in containers.items():
        files[f"{name}/main"] = scope = _CGROUPS / _scope(identity).lstrip("/")
        files[name] = scope.parent
    before = {place: _totals(directory) for place, directory in files.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("GET", "/stats/summary")
        summary = json.loads(connection.getresponse().read())
    finally:
        connection.close()
    places = {"node": summary["node"]}
    for pod in summary["pods"]:
        name = next((each for each in containers if pod["podRef"]["name"].startswith(f"{each}-")), "")
        if name:
            places |= {name: pod, f"{name}/main": pod["containers"][0]}
    measured = {place: {each: found[each]["psi"] for each in _PRESSURES} for place, found in places.items()}
    return {"before": before, "measured": measured, "after": {place: _totals(each) for place, each in files.items()}}


def usage_pressure(name: str) -> dict[str, Any]:
    """Pressure of a pod's container by the local API."""
    (pod,) = (pod for pod in get("/pykubelet/v1/usage")["pods"] if pod["podRef"]["name"].startswith(f"{name}-"))
    return {each: pod["containers"][0][each]["psi"] for each in ("cpu", "memory")}


def _totals(directory: Path) -> dict[str, dict[str, int]]:
    """Total stall times in microseconds, by resource and kind (``some``, ``full``)."""
    suffix = "" if directory == Path("/proc/pressure") else ".pressure"
    texts = {each: (directory / f"{each}{suffix}").read_text() for each in _PRESSURES}
    return {
        each: {line.split()[0]: int(line.rpartition("total=")[2]) for line in text.splitlines()}
        for each, text in texts.items()
    }


def traces() -> dict[str, list[str]]:
    """Traces of an installed agent with pods on the machine, by kind, to compare before with after."""
    own = re.compile(r"kubepods|pykubelet|criserver|conmon|/pods/|cri-|crio-")
    firewall = [line for tool in ("iptables-save", "ip6tables-save") for line in _output(tool)]
    tops = ("/etc", "/var/lib", "/var/log", "/run")
    noise = "/run/systemd/|/run/udev/|/run/log/|/run/credentials/|/var/lib/systemd/|/var/log/journal/|/run/initctl"
    files = (str(path) for top in tops for path in Path(top).rglob("*"))
    units = _output("systemctl", "list-units", "--all", "--plain", "--no-legend")
    return {
        "units": sorted(row.split()[0] for row in units if own.search(row.split()[0])),
        "unit files": sorted(str(path) for top in _UNITS for path in Path(top).rglob("*") if own.search(str(path))),
        "mounts": sorted(row.split()[1] for row in _output("cat", "/proc/self/mounts") if own.search(row)),
        "cgroups": sorted(str(path) for path in _CGROUPS.rglob("*") if path.is_dir() and own.search(str(path))),
        "links": sorted(row.split(":")[1].strip().partition("@")[0] for row in _output("ip", "-o", "link")),
        "routes": sorted(_output("ip", "route")),
        "firewall": [row for row in firewall if row.startswith("-A") or (row.startswith(":") and " - " in row)],
        "processes": [row for row in _output("ps", "-eo", "args") if own.search(row) and "guest.py" not in row],
        "files": sorted(path for path in files if not re.match(noise, path)),
    }


def _output(*command: str) -> list[str]:
    for _ in range(_TRIES):
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            break
        # On a busy host systemd may not answer in time. What the command said is in the output of this process.
        time.sleep(_POLL_SECONDS)
    done.check_returncode()
    return done.stdout.splitlines()


def _seen(status: dict[str, Any], processes: dict[str, int]) -> dict[str, Any]:
    ((state, details),) = (status.get("state") or {"waiting": {}}).items()
    identity = status.get("containerID", "").partition("://")[2]
    return {
        "id": identity,
        "state": state,
        "ready": status.get("ready", False),
        "restarts": status.get("restartCount", 0),
        "reason": details.get("reason", ""),
        "exit_code": details.get("exitCode"),
        "pid": processes.get(identity, 0) if state == "running" else 0,
    }


def _first_processes() -> dict[str, int]:
    """The first process of each container, by the id in its cgroup's path."""
    found: dict[str, int] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                path = (directory / "cgroup").read_text()
            except OSError:
                continue
            for identity in _ID.findall(path)[-1:]:
                found[identity] = min(int(directory.name), found.get(identity, 1 << 30))
    return found


def wait_gone(*names: str, seconds: float = 1200.0) -> list[str]:
    """Wait until the agent does not have these pods; those that it still has."""
    left: list[str] = []

    def gone() -> bool:
        left[:] = pods(*names)
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
    """Usage of the pod's container as the agent measures it, and that of its cgroup just before and just after.

    With crun the cgroup is a child of the scope, which has some memory of the kernel beside it.
    """
    path = cgroup_of(identity)["path"]
    before = _usage(path)
    pods = [pod for pod in get("/pykubelet/v1/usage")["pods"] if pod["podRef"]["name"].startswith(f"{name}-")]
    return {"before": before, "measured": pods[0]["containers"][0], "after": _usage(path)}


def _scope(identity: str) -> str:
    """Path of a container's scope; with crun its processes are in a child of it."""
    parts = cgroup_of(identity)["path"].split("/")
    return "/".join(parts[: next(number for number, part in enumerate(parts) if identity in part) + 1])


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
    began = time.monotonic()
    while not condition() and time.monotonic() < deadline:
        time.sleep(max(_POLL_SECONDS, _REST * (time.monotonic() - began)))
        began = time.monotonic()


if __name__ == "__main__":
    given = json.loads(sys.argv[2])
    print(json.dumps(globals()[sys.argv[1]](*given["arguments"], **given["named"])))
