"""Scripted behavior of the fake runtime's containers: declared by tests, looked up when a container is created."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from grpc import StatusCode

from pykubelet.base.units import Seconds
from pykubelet.pb import runtime_v1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Script:
    """The behavior of a container; the default runs until it is stopped and then exits at once with 143."""

    exit_after: Seconds | None = None
    """Seconds until it exits by itself; None: never."""
    exit_code: int = 0
    reason: str = ""
    """Reason in the status when it exits by itself; empty: Completed or Error."""
    stop_after: Seconds | None = 0.0
    """Seconds from SIGTERM to its exit; None: it has to be killed."""
    stop_code: int = 143
    fail_create: tuple[StatusCode, str] | None = None
    fail_start: str = ""
    """Error message of StartContainer, if not empty; the container has then exited with 128 and reason StartError."""
    output: Sequence[str] = ()
    """Lines written to its log when it starts (with `FakeCriOptions.write_logs`)."""
    cpu_cores: float = 0.01
    memory_bytes: int = 2**20


@dataclass(frozen=True, slots=True)
class ExecScript:
    """The behavior of a command run by ExecSync; the default succeeds at once."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    duration: Seconds = 0.0
    fail: tuple[StatusCode, str] | None = None
    """Error of ExecSync, if the runtime cannot run the command."""


@dataclass(slots=True)
class ScriptBook:
    """The rules that assign scripts; the last matching rule wins."""

    _containers: list[tuple[str | None, str | None, str | None, tuple[Script, ...]]] = field(default_factory=list)
    _execs: list[tuple[tuple[str, ...] | None, str | None, ExecScript]] = field(default_factory=list)

    def add(self, scripts: tuple[Script, ...], container: str | None, image: str | None, pod: str | None) -> None:
        """Add a rule: the n-th script is for attempt n of a container, the last one also for all later attempts."""
        self._containers.append((container, image, pod, scripts or (Script(),)))

    def add_exec(self, script: ExecScript, command: tuple[str, ...] | None, container: str | None) -> None:
        """Add a rule for commands that begin with these words (None: all)."""
        self._execs.append((command, container, script))

    def find(self, config: pb.ContainerConfig, pod: str) -> Script:
        """The script for a new container."""
        names = {config.image.image, config.image.user_specified_image}
        for container, image, for_pod, scripts in reversed(self._containers):
            if container not in (None, config.metadata.name) or for_pod not in (None, pod):
                continue
            if image is None or image in names:
                return scripts[min(config.metadata.attempt, len(scripts) - 1)]
        return Script()

    def find_exec(self, container: str, command: Sequence[str]) -> ExecScript:
        """The script for a command in a container of that name."""
        words = tuple(command)
        for prefix, for_container, script in reversed(self._execs):
            if for_container in (None, container) and (prefix is None or words[: len(prefix)] == prefix):
                return script
        return ExecScript()
