"""Interface of a runtime to sandboxes and containers, however it runs their processes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.conmon import Exit, LaunchedContainer
from pykubelet.criserver.oci import ExecResult
from pykubelet.criserver.oci.runtime import Features
from pykubelet.criserver.streaming.commands.session import ExecSession
from pykubelet.criserver.streaming.streaming_types import StreamControl, Streams
from pykubelet.criserver.types import ContainerID, ProcessRef, SandboxID


class Task(Struct, frozen=True, kw_only=True):
    """The processes of one container, or of a sandbox itself, as runtimes know them."""

    id: ContainerID
    sandbox: SandboxID
    bundle: Path
    """The directory of config.json and of conmon's files."""
    cgroup: str = ""
    process: ProcessRef | None = None
    """The first process, if it was started."""
    monitor: ProcessRef | None = None
    """Its conmon, if it is known."""
    hooks: bool = False
    """Its start and end run hooks, which only the runtime's program does."""
    restore: Path | None = None
    """A directory of CRIU's images: ``create`` restores the processes from them, which run at once."""

    @property
    def of_sandbox(self) -> bool:
        """Whether it is the sandbox's own, which has the sandbox's id."""
        return str(self.id) == str(self.sandbox)


class TaskStreams(Struct, frozen=True, kw_only=True):
    """Destinations and kind of the streams of a task's first process."""

    log: Path | None = None
    """None: the output is discarded."""
    terminal: bool = False
    stdin: bool = False
    stdin_once: bool = False


class FoundTask(Struct, frozen=True, kw_only=True):
    """State of a task that the server finds at its start."""

    start_begun: bool
    """A monitor, a state of the runtime or a PID file exists."""
    program_runs: bool
    """The program runs or has run: it does not wait to be started."""
    watched: bool
    """A monitor or shim runs, or is known to have run, that tells the exit."""
    exit_noted: bool
    pid: int
    """The first process; 0: unknown."""


class ContainerRuntime(Protocol):
    """A runtime. Errors: Permanent, with its message: it failed; Transient: it timed out; Unsupported."""

    @property
    def systemd(self) -> bool:
        """Whether systemd creates the cgroups."""
        ...

    @property
    def known(self) -> bool:
        """Whether it understands containerd's annotations ``container-type`` and ``sandbox-id``."""
        ...

    @property
    def supports_prelaunch(self) -> bool:
        """Whether the next server can recognize a created task that waits for its start."""
        ...

    @property
    def sandbox_tasks(self) -> bool:
        """Whether each sandbox needs a task of its own, even if its containers share no PID namespace."""
        ...

    @property
    def names_host(self) -> bool:
        """Whether a sandbox's own task gets the pod's host name: what it runs in has a UTS namespace of its own."""
        ...

    async def features(self) -> Features:
        """The optional features."""
        ...

    async def create(self, task: Task, streams: TaskStreams) -> LaunchedContainer:
        """Create the first process; its program does not run yet. After an error the caller must undo the rest."""
        ...

    async def start(self, task: Task) -> None:
        """Let the program run."""
        ...

    async def wait(self, task: Task) -> Exit | None:
        """Wait for the end of the first process, and until its output is in the log. None: the exit is unknown."""
        ...

    async def signal(self, task: Task, number: int) -> None:
        """Send a signal to the first process. NotFound: it has ended."""
        ...

    async def end_launch(self, task: Task) -> None:
        """Kill what creates the task or has created it, so that it creates nothing more. Idempotent."""
        ...

    async def delete(self, task: Task, *, emptied: bool) -> None:
        """Remove all that the runtime has of a task; processes that remain are killed. Idempotent.

        ``emptied``: its cgroup with all processes was removed already.
        """
        ...

    async def update(self, task: Task, resources: Mapping[str, object]) -> None:
        """Change the limits of a running task; ``resources`` as in the OCI specification."""
        ...

    async def execute(self, task: Task, process: Mapping[str, object], timeout: Seconds, output: Bytes) -> ExecResult:
        """Run a process (OCI form) in a running task and return its exit code and up to ``output`` bytes of output.

        ProgramTimeout after ``timeout`` seconds (0: no limit): the command is killed.
        """
        ...

    async def session(self, task: Task, process: Mapping[str, object], streams: Streams) -> ExecSession:
        """Prepare a process whose streams are a client's."""
        ...

    def control(self, task: Task) -> StreamControl:
        """The control of a running task's streams besides reading and writing, for an attached client."""
        ...

    async def found(self, task: Task, *, monitored: bool) -> FoundTask:
        """Examine what a former server left of a task. ``monitored``: its conmon runs."""
        ...
