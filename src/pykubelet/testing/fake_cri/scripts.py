"""What the containers of the fake runtime do: declared by tests, looked up when a container is made."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from grpc import StatusCode

from pykubelet.base.units import Seconds
from pykubelet.pb import runtime_v1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Script:
    """The life of a container; the default runs until it is stopped and then ends at once with 143."""

    exit_after: Seconds | None = None
    """When it ends by itself; None: never."""
    exit_code: int = 0
    reason: str = ""
    """Reason in the status when it ends by itself; empty: Completed or Error."""
    stop_after: Seconds | None = 0.0
    """How long it takes to end after it was asked to; None: it has to be killed."""
    stop_code: int = 143
    fail_create: tuple[StatusCode, str] | None = None
    fail_start: str = ""
    """Message with which StartContainer fails; the container has then ended with 128 and reason StartError."""
    output: Sequence[str] = ()
    """Lines written to its log when it starts (with `FakeCriOptions.write_logs`)."""
    cpu_cores: float = 0.01
    memory_bytes: int = 2**20


@dataclass(frozen=True, slots=True)
class ExecScript:
    """What a command run by ExecSync does; the default succeeds at once."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    duration: Seconds = 0.0
    fail: tuple[StatusCode, str] | None = None
    """The runtime cannot run it at all."""


@dataclass(slots=True)
class ScriptBook:
    """The rules; the one added last wins."""

    _containers: list[tuple[str | None, str | None, str | None, tuple[Script, ...]]] = field(default_factory=list)
    _execs: list[tuple[tuple[str, ...] | None, str | None, ExecScript]] = field(default_factory=list)

    def add(self, scripts: tuple[Script, ...], container: str | None, image: str | None, pod: str | None) -> None:
        """The n-th script is for attempt n of a container; the last one for all later attempts too."""
        self._containers.append((container, image, pod, scripts or (Script(),)))

    def add_exec(self, script: ExecScript, command: tuple[str, ...] | None, container: str | None) -> None:
        """For commands that begin with these words (None: all)."""
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
