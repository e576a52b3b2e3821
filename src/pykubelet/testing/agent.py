"""Run an agent in a separate process, isolated from everything else on the machine, for tests and benchmarks."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pykubelet
from pykubelet.base.errors import PykubeletError
from pykubelet.cli.client.local_api import LocalApi
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import ContainerStatus, Event, Pod
from pykubelet.testing import shifted
from pykubelet.testing.free_ports import free_port
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.traces import remove_cgroups, remove_files, remove_mounts

_START_SECONDS = 20.0
_POLL_SECONDS = 0.04
_KILLED = 137
"""Exit status after SIGKILL, as shells give it."""


class _PatientApi(LocalApi):
    """Waits for answers as much longer as the tests wait for everything."""

    def _connected(self, seconds: float | None) -> socket.socket:
        return super()._connected(None if seconds is None else seconds * PATIENCE)


@dataclass
class AgentProcess:
    """``pykubelet run`` below one directory: manifests, root, logs, socket, configuration, own cgroup parent."""

    home: Path
    endpoint: str
    """CRI endpoint of the runtime; empty: the agent starts ``pykubelet criserver`` below its directory."""
    cgroup_root: str
    """A cgroup path that only this agent uses, ``/pktest-…``."""
    node_name: str = "testnode"
    config: dict[str, Any] = field(default_factory=dict)
    """Further KubeletConfiguration fields."""
    flags: Sequence[str] = ()
    manifest_dir: Path | None = None
    """Default: a directory of its own."""
    module: str = field(default_factory=shifted.module)
    """Name of the Python module that is run."""
    within: Sequence[str] = ()
    """Command that runs the agent's command, for example in a namespace of its own; it must keep the process id."""
    process: "subprocess.Popen[bytes] | None" = None
    node_port: int = field(default_factory=free_port)
    """Port of the kubelet API server, if the agent serves it."""
    used_names: set[str] = field(default_factory=set)
    """Names of the pods that tests have given to this agent."""

    @property
    def manifests(self) -> Path:
        return self.manifest_dir or self.home / "manifests"

    @property
    def pod_logs(self) -> Path:
        return self.home / "log" / "pods"

    @property
    def container_logs(self) -> Path:
        return self.home / "log" / "containers"

    @property
    def root(self) -> Path:
        return self.home / "root"

    @property
    def log(self) -> Path:
        return self.home / "agent.log"

    @property
    def socket(self) -> Path:
        return self.home / "run" / "agent.sock"

    @property
    def api(self) -> LocalApi:
        return _PatientApi(self.socket)

    @property
    def pid(self) -> int:
        assert self.process is not None, "the agent is not running"
        return self.process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start the agent; with ``wait``, return when its local API responds."""
        for directory in (self.manifests, self.pod_logs, self.config_file.parent):
            with contextlib.suppress(FileExistsError):  # of any file type: it may be on a file system that fails
                directory.mkdir(parents=True)
        self.config_file.write_text(self.config_text())
        command = [
            *(*self.within, sys.executable, "-m", self.module, "run"),
            *("--manifests", str(self.manifests)),
            *("--config", str(self.config_file)),
            *("--root-dir", str(self.root)),
            *("--run-dir", str(self.home / "run")),
            *("--container-log-dir", str(self.container_logs)),
            *(("--container-runtime-endpoint", self.endpoint) if self.endpoint else ()),
            *("--node-name", self.node_name),
            *self.flags,
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment()
            )
        if wait:
            self.wait_ready()

    @property
    def config_file(self) -> Path:
        """The configuration, in a directory of its own: the agent hears of each write in it, for example to a log."""
        return self.home / "config" / "config.yaml"

    def config_text(self) -> str:
        """The configuration file's text: the fields of every test, and those of ``config``."""
        configuration = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "cgroupRoot": self.cgroup_root,
            "podLogsDir": str(self.pod_logs),
            "healthzPort": 0,
            # The default port belongs to one agent of the machine.
            "enableServer": "--kubeconfig" in self.flags,
            "address": "127.0.0.1",
            "port": self.node_port,
            **self.config,
        }
        return json.dumps(configuration)

    def reconfigure(self, **fields: object) -> None:
        """Change fields of the configuration of the running agent, which applies them."""
        self.config |= fields
        temporary = self.config_file.with_name("config.new")
        temporary.write_text(self.config_text())
        temporary.rename(self.config_file)

    def wait_ready(self) -> None:
        """Wait until the local API responds; AssertionError with the end of the log if it does not."""
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
        """Stop the agent with a signal; returns its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=30 * PATIENCE)
        self.process = None
        return status

    def kill(self) -> None:
        """SIGKILL: no chance to clean up."""
        self.stop(signal.SIGKILL)

    def write(self, name: str, *documents: Mapping[str, Any]) -> Path:
        """Write documents to a file of the manifest directory atomically (rename)."""
        return self.write_text(name, "\n---\n".join(json.dumps(document) for document in documents))

    def write_text(self, name: str, text: str | bytes) -> Path:
        """Write a file of the manifest directory atomically (rename)."""
        path = self.manifests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{name}.tmp")
        temporary.write_bytes(text if isinstance(text, bytes) else text.encode())
        temporary.rename(path)
        return path

    def pods(self) -> dict[str, Pod]:
        """The agent's pods by their names in the manifests, without the node's suffix."""
        suffix = f"-{self.node_name}"
        pods = (from_builtins(item, Pod) for item in self.api.get("/api/v1/pods")["items"])
        return {pod.metadata.name.removesuffix(suffix): pod for pod in pods}

    def slowest_answer(self, name: str) -> float:
        """Ask for the pods until this one is running; return the seconds that the slowest answer took."""
        longest, phase = 0.0, "Pending"
        while phase == "Pending":
            asked = time.monotonic()
            found = self.pods().get(name)
            longest = max(longest, time.monotonic() - asked)
            phase = "Pending" if found is None else found.status.phase
            time.sleep(_POLL_SECONDS)
        assert phase == "Running"
        return longest

    def pod(self, name: str) -> Pod:
        """One pod by its name in the manifest; AssertionError if the agent does not have it."""
        pods = self.pods()
        assert name in pods, f"no pod {name}; the agent has {sorted(pods)}\n{self.log_tail()}"
        return pods[name]

    def wait_pod(self, name: str, condition: Callable[[Pod], object], timeout: float = 20.0) -> Pod:
        """Wait until the pod exists and the condition holds for it; returns the pod at that moment."""
        last: list[Pod] = []

        def holds() -> bool:
            pod = self.pods().get(name)
            last[:] = [pod] if pod else []
            return pod is not None and bool(condition(pod))

        wait_for(holds, timeout, lambda: self._why(name, last))
        return last[0]

    def wait_running(self, *names: str, timeout: float = 20.0) -> list[Pod]:
        """Wait until all containers of these pods run and the pods are ready."""
        return [self.wait_pod(name, is_ready, timeout) for name in names]

    def wait_gone(self, *names: str, timeout: float = 30.0) -> None:
        """Wait until the agent does not list these pods any more."""
        wait_for(
            lambda: not self.pods().keys() & set(names),
            timeout,
            lambda: f"still there: {sorted(self.pods().keys() & set(names))}\n{self.log_tail()}",
        )

    def events(self, name: str) -> list[Event]:
        """Events of a pod by its name in the manifest, as the API has them."""
        items = self.api.get("/api/v1/events")["items"]
        events = (from_builtins(item, Event) for item in items)
        return [event for event in events if event.involved_object.name == f"{name}-{self.node_name}"]

    def wait_event(self, name: str, reason: str, text: str = "", timeout: float = 20.0) -> Event:
        """Wait for an event of the pod with that reason and text."""
        found: list[Event] = []

        def seen() -> bool:
            found[:] = [e for e in self.events(name) if e.reason == reason and text in e.message]
            return bool(found)

        wait_for(seen, timeout, lambda: f"no event {reason} {text!r}:\n{self._events_text(name)}\n{self.log_tail()}")
        return found[-1]

    def cli(self, *arguments: str, timeout: float = 30.0) -> "subprocess.CompletedProcess[str]":
        """Run a command of the command line against this agent."""
        command = cli_command(self.socket, *arguments)
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout * PATIENCE,
            env=environment(),
            stdin=subprocess.DEVNULL,
        )

    def exec(self, name: str, script: str, container: str = "", *, last: bool = False) -> str:
        """Run a shell script in a container of the pod; returns its output. AssertionError if it fails.

        ``last``: the script makes the container end, which may kill the script before it has ended itself.
        """
        chosen = ("-c", container) if container else ()
        done = self.cli("exec", name, *chosen, "--", "sh", "-c", script)
        good = done.returncode == 0 or (last and done.returncode == _KILLED)
        assert good, f"{script!r} in {name} failed with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def end_container(self, name: str, container: str = "") -> None:
        """Send SIGTERM to a container's first process, so that it exits by itself; does not wait for the exit."""
        chosen = ("-c", container) if container else ()
        # The exit of the first process kills the sending process too, so the status of the latter is meaningless.
        self.cli("exec", name, *chosen, "--", "kill", "-TERM", "1")

    def _why(self, name: str, last: list[Pod]) -> str:
        shown = str(last[0].status) if last else "(the agent does not have it)"
        return f"pod {name}: {shown}\nevents:\n{self._events_text(name)}\nlog:\n{self.log_tail()}"

    def _events_text(self, name: str) -> str:
        return "\n".join(f"  {e.type} {e.reason} ({e.count}): {e.message}" for e in self.events(name))

    def log_tail(self, size: int = 6000) -> str:
        """The end of the agent's own log."""
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else "(no log)"

    def remove_all_pods(self, timeout: float = 60.0) -> None:
        """Remove every manifest and wait until the pods are gone."""
        for path in self.manifests.iterdir():
            path.unlink()
        wait_for(lambda: not self.pods(), timeout, lambda: f"pods are left: {list(self.pods())}\n{self.log_tail()}")

    def destroy(self) -> None:
        """Remove the agent's directory; pods that are left in the runtime are removed with the runtime."""
        if self.process is not None:
            self.kill()
        remove_mounts(self.home)
        remove_files(self.home)
        remove_cgroups(self.cgroup_root)


def cli_command(endpoint: Path, *arguments: str) -> list[str]:
    """The command line's argv for the agent at that socket."""
    return [sys.executable, "-m", "pykubelet.cli", "--socket", str(endpoint), *arguments]


def environment() -> dict[str, str]:
    """An environment in which child processes import this copy of the package, installed or not."""
    source = str(Path(pykubelet.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH", "")
    # Agents of tests leave no links to their sockets for the commands of users.
    own = {"PYKUBELET_AGENTS_DIR": "", **os.environ}
    return {**own, "PYTHONPATH": f"{source}:{inherited}" if inherited else source}


def is_ready(pod: Pod) -> bool:
    """Whether the pod runs and is ready."""
    return pod.status.phase == "Running" and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def container_status(pod: Pod, name: str = "") -> ContainerStatus:
    """The status of a container of any kind by name; without a name, that of the first ordinary container.

    Returns an empty status until the agent has synced the pod.
    """
    status = pod.status
    everything = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    found = [each for each in everything if each.name == name] if name else status.container_statuses
    return found[0] if found else ContainerStatus(name=name, ready=False, restart_count=0)


def waiting_reason(pod: Pod, name: str = "") -> str:
    """The reason why a container waits; empty if it does not."""
    state = container_status(pod, name).state
    return state.waiting.reason if state and state.waiting else ""


def nothing_within(condition: Callable[[], bool], seconds: float, message: Callable[[], str]) -> None:
    """Poll for ``seconds``; AssertionError with the message as soon as the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= end:
            return
        time.sleep(_POLL_SECONDS * PATIENCE)
    raise AssertionError(message())


def wait_for(condition: Callable[[], bool], timeout: float, message: Callable[[], str]) -> float:
    """Poll until the condition holds; returns the seconds it took. AssertionError with the message on timeout."""
    timeout *= PATIENCE
    start = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - start
        if time.monotonic() - start > timeout:
            raise AssertionError(f"not within {timeout:.0f} s: {message()}")
        time.sleep(_POLL_SECONDS * PATIENCE)
