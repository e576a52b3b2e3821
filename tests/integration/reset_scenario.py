"""Run an agent with pods, reset it, and print the machine's state before and after as JSON.

The test runs this in a network and a mount namespace of its own: ``unshare -n -m python -m …``.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from pykubelet.testing.agent import AgentProcess, environment
from pykubelet.testing.criserver import PrivateCriServer
from pykubelet.testing.ociimage import ImageSpec
from pykubelet.testing.traces import mounts_below
from tests.manifests import BUSYBOX, config_map, container, pod

_CGROUPS = Path("/sys/fs/cgroup")
_GIVEN = ("config", "agent.log", "manifests", "criserver.json", "criserver.yaml", "s", "log", "images")
"""Names of the files and directories that the test makes itself."""


def _run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def state(home: Path, cgroup: str) -> dict[str, list[str]]:
    """Return the state that a reset has to restore, as lines by kind."""
    found = {}
    for program in ("iptables-save", "ip6tables-save"):
        lines = _run(program).splitlines()
        found[program] = [line for line in lines if line.startswith("-A ") or (line.startswith(":") and " - " in line)]
    found["links"] = [line.split(":")[1] for line in _run("ip", "-o", "link").splitlines()]
    found["routes"] = _run("ip", "route").splitlines()
    found["mounts"] = mounts_below(home)
    name = cgroup.strip("/")
    found["cgroups"] = [str(path) for path in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")) if path.exists()]
    found["processes"] = [_text(path) for path in Path("/proc").glob("[0-9]*/cmdline") if f"{home}/" in _text(path)]
    found["files"] = sorted(str(path) for path in home.rglob("*") if path.relative_to(home).parts[0] not in _GIVEN)
    found["files"] += sorted(str(path) for path in (home / "s").glob("*") if path.name not in _GIVEN)
    found["files"] += sorted(str(path) for path in (home / "log").rglob("*"))
    return found


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
    return "" if path.parent.name == str(os.getpid()) or "reset_scenario" in text else text


def main(directory: str, cgroup: str, bridge: str, subnet: str) -> None:
    """Print a JSON object with the states and the outputs of the commands."""
    home = Path(directory)
    for words in ("link set lo up", "link add up0 type bridge", "link set up0 up", "addr add 10.231.0.2/24 dev up0"):
        _run("ip", *words.split())
    _run("ip", "route", "add", "default", "via", "10.231.0.1")
    server = PrivateCriServer(home / "s", bridge, subnet)
    server.home.mkdir()
    server.write_configuration()
    (home / "s" / "cni").rmdir()
    agent = AgentProcess(home, "", cgroup, flags=("--criserver-config", str(server.config)))
    result: dict[str, object] = {"before": state(home, cgroup)}
    server.load(ImageSpec(BUSYBOX))
    agent.write(
        "pods.json",
        config_map("map", {"k": "v"}),
        pod(
            "port",
            container(
                ports=[{"containerPort": 80, "hostPort": 18080}],
                volumeMounts=[{"name": "map", "mountPath": "/map"}, {"name": "memory", "mountPath": "/memory"}],
            ),
            volumes=[
                {"name": "map", "configMap": {"name": "map"}},
                {"name": "memory", "emptyDir": {"medium": "Memory"}},
            ],
        ),
        pod("ended", container("main", ["true"]), restartPolicy="Never"),
    )
    notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices.bind(f"\0{home}")
    os.environ["NOTIFY_SOCKET"] = f"@{home}"
    agent.start()
    del os.environ["NOTIFY_SOCKET"]
    agent.wait_running("port", timeout=120)
    agent.wait_pod("ended", lambda pod: pod.status.phase == "Succeeded", timeout=120)
    result["running"] = state(home, cgroup)

    def reset(*flags: str) -> dict[str, object]:
        same = ("--config", agent.config_file, "--criserver-config", server.config, "--root-dir", agent.root)
        places = ("--run-dir", home / "run", "--container-log-dir", agent.container_logs)
        words = [sys.executable, "-m", "pykubelet.cli", "reset", *map(str, (*same, *places)), *flags]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment()})
        return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}

    result["dry"] = reset("--dry-run", "--images")
    result["still"] = sorted(agent.pods())
    result["unconfirmed"] = reset()
    result["first"] = reset("--yes")
    if agent.process is not None:
        result["agent"] = agent.process.wait(timeout=60)
    notices.setblocking(False)
    result["notices"] = [notices.recv(64).decode() for _ in range(2)]
    result["images"] = sorted(path.name for path in (home / "s" / "root").glob("*"))
    result["second"] = reset("--yes", "--images")
    result["third"] = reset("--yes", "--images")
    result["after"] = state(home, cgroup)
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
