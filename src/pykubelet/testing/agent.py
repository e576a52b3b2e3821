"""An agent in a process of its own, isolated from everything else on the machine: for tests and benchmarks."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.local_api import LocalApi

_START_SECONDS = 20.0


@dataclass
class AgentProcess:
    """``pykubelet run`` below one folder: manifests, root, logs, socket, configuration, own cgroup parent."""

    home: Path
    endpoint: str
    cgroup_root: str
    """A cgroup path that only this agent uses, ``/pktest-…``."""
    node_name: str = "testnode"
    config: dict[str, Any] = field(default_factory=dict)
    """Further KubeletConfiguration fields."""
    flags: Sequence[str] = ()
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def manifests(self) -> Path:
        return self.home / "manifests"

    @property
    def pod_logs(self) -> Path:
        return self.home / "log" / "pods"

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def log(self) -> Path:
        return self.home / "agent.log"

    @property
    def api(self) -> LocalApi:
        return LocalApi(self.home / "run" / "agent.sock")

    def start(self, *, wait: bool = True) -> None:
        """Start the agent; with ``wait``, return when its local API answers."""
        for folder in (self.manifests, self.pod_logs):
            folder.mkdir(parents=True, exist_ok=True)
        configuration = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "cgroupRoot": self.cgroup_root,
            "podLogsDir": str(self.pod_logs),
            "healthzPort": 0,
            **self.config,
        }
        (self.home / "config.yaml").write_text(json.dumps(configuration))
        command = [
            *(sys.executable, "-m", "pykubelet.cli", "run"),
            *("--manifests", str(self.manifests)),
            *("--config", str(self.home / "config.yaml")),
            *("--root-dir", str(self.root)),
            *("--run-dir", str(self.home / "run")),
            *("--container-log-dir", str(self.home / "log" / "containers")),
            *("--container-runtime-endpoint", self.endpoint),
            *("--node-name", self.node_name),
            *self.flags,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the local API answers; AssertionError with the log's end if it does not."""
        wait_for(self._answers, _START_SECONDS, lambda: f"the agent did not start:\n{self.log_tail()}")

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the agent ended with {self.process.returncode}:\n{self.log_tail()}")
        with contextlib.suppress(PykubeletError):
            self.api.get("/api/v1/pods")
            return True
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the agent with a signal; its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=30)
        self.process = None
        return status

    def kill(self) -> None:
        """SIGKILL: no chance to clean up."""
        self.stop(signal.SIGKILL)

    def write(self, name: str, *documents: dict[str, Any]) -> Path:
        """Put documents into the manifest directory in one move."""
        path = self.manifests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "\n---\n".join(json.dumps(document) for document in documents)
        temporary = path.with_name(f".{name}.tmp")
        temporary.write_text(text)
        temporary.rename(path)
        return path

    def pods(self) -> dict[str, dict[str, Any]]:
        """The agent's pods by name, without the node's suffix."""
        suffix = f"-{self.node_name}"
        items = self.api.get("/api/v1/pods")["items"]
        return {item["metadata"]["name"].removesuffix(suffix): item for item in items}

    def log_tail(self, size: int = 6000) -> str:
        """The end of the agent's own log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else "(no log)"

    def remove_all_pods(self, timeout: float = 60.0) -> None:
        """Take every manifest away and wait until the pods are gone."""
        for path in self.manifests.iterdir():
            path.unlink()
        wait_for(lambda: not self.pods(), timeout, lambda: f"pods are left: {list(self.pods())}\n{self.log_tail()}")

    def destroy(self) -> None:
        """Remove the agent's folder; the runtime's pods are the runtime's to remove."""
        if self.process is not None:
            self.kill()
        rows = Path("/proc/self/mountinfo").read_text().splitlines()
        mounts = [row.split()[4] for row in rows if row.split()[4].startswith(f"{self.home}/")]
        for mount in sorted(mounts, key=len, reverse=True):
            subprocess.run(["umount", "-l", mount], capture_output=True)
        shutil.rmtree(self.home, ignore_errors=True)
        remove_cgroups(self.cgroup_root)


def remove_cgroups(parent: str) -> None:
    """Remove the cgroup and all below it from every hierarchy; processes in it must be gone."""
    for hierarchy in Path("/sys/fs/cgroup").iterdir():
        top = hierarchy / parent.strip("/")
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
    top = Path("/sys/fs/cgroup") / parent.strip("/")
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()


def wait_for(condition: Callable[[], bool], timeout: float, message: Callable[[], str]) -> float:
    """Poll until the condition holds; the seconds it took. AssertionError with the message after the timeout."""
    start = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - start
        if time.monotonic() - start > timeout:
            raise AssertionError(f"not within {timeout:.0f} s: {message()}")
        time.sleep(0.02)
