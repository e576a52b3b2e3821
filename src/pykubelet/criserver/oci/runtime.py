"""An OCI runtime, called by its command line (the operations of the runtime-spec, with runc's flags).

``create`` is not here: conmon calls it, since conmon must be the parent of the container's process.
"""

import asyncio
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from pykubelet.base import tracing
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.proc import CompletedProgram, ExitError, ProgramTimeout, run
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.oci.call_directory import call_directory
from pykubelet.criserver.oci.command import Command, directory_prefix
from pykubelet.criserver.oci.fifo import SHELL, fifo_of, release_exec_fifo
from pykubelet.criserver.types import ContainerID, ProcessRef
from pykubelet.linux import procfs
from pykubelet.linux.cgroups import MigrationWarmUp
from pykubelet.linux.errors import wrap

_log = logging.getLogger(__name__)
_CALL: Seconds = 60.0
_FOREVER: Seconds = 1e9
_REAP: Seconds = 2.0
_PATH = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")


class ExecResult(Struct, frozen=True):
    """Exit code and output of a command in a container. Output beyond the limit was read and discarded."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Features(Struct, frozen=True):
    """Optional features of a runtime."""

    recursive_read_only: bool
    user_namespaces: bool


class _LinuxFeatures(msgspec.Struct):
    namespaces: list[str] = []


class _Features(msgspec.Struct):
    mountOptions: list[str] = []  # noqa: N815 - the specification's name
    linux: _LinuxFeatures = msgspec.field(default_factory=_LinuxFeatures)


class _LogLine(msgspec.Struct):
    msg: str = ""
    level: str = ""


Observe: TypeAlias = Callable[[str], AbstractContextManager[None]]
"""Returns a context in which the call of an operation runs."""


def _unobserved(operation: str) -> AbstractContextManager[None]:
    return nullcontext()


class OciRuntime:
    """A runtime program with a state directory of its own."""

    def __init__(
        self,
        *,
        program: str,
        root: Path,
        scratch: Path,
        systemd: bool = False,
        cgroup_migrations: MigrationWarmUp | None = None,
        marks: Mapping[str, str] | None = None,
        observe: Observe | None = None,
    ) -> None:
        """``scratch``: directory for files of single calls, emptied at each start; ``marks``: additional environment
        variables; ``observe`` gets the operation of each call. NotFound: the program is not installed."""
        found = shutil.which(program)
        if found is None:
            raise NotFound(f"OCI runtime {program} is not installed or not on PATH")
        self.path = found
        self.root = root
        self._scratch = scratch
        self._observe = observe or _unobserved
        self._env = {"PATH": _PATH, **(marks or {})}
        self.systemd = systemd
        self._cgroup_migrations = cgroup_migrations
        self._features: Features | None = None
        self._choom = shutil.which("choom", path=_PATH)
        # A wrapper of runc with another name may add hooks, which only the program runs.
        name = Path(found).name
        self._plain_runc = name == "runc" and os.access(SHELL, os.X_OK)
        self.known = name in ("runc", "crun")
        """Whether it is one of the runtimes whose annotations and flags are known."""
        self.supports_prelaunch = self.known
        """Whether the next server can recognize a created container that waits for its start: see ``is_waiting``."""
        self.keyrings = self.supports_prelaunch
        """Whether it creates a session keyring for each container, and has a flag not to: the kernel limits them."""

    def global_arguments(self) -> list[str]:
        """The global flags, before every command."""
        return [f"--root={self.root}", *(["--systemd-cgroup"] if self.systemd else [])]

    def monitor_arguments(self, bundle: Path) -> list[str]:
        """The arguments before ``create``, which conmon calls; errors go to a file in the bundle."""
        return [*self.global_arguments(), f"--log={bundle}/oci.log", "--log-format=json"]

    def expect_cgroup_migration(self) -> None:
        """Announce that the runtime is about to migrate a process into a cgroup; see ``linux.cgroups``."""
        if self._cgroup_migrations is not None:
            self._cgroup_migrations.start()

    async def version(self) -> str:
        """Read the runtime's version; ``unknown`` if it reports none."""
        completed = await run([self.path, "--version"], timeout=_CALL)
        words = completed.stdout.decode(errors="replace").split()
        return words[2] if len(words) > 2 else "unknown"

    async def features(self) -> Features:
        """Read the runtime's features (``features`` of the runtime-spec 1.1); cached.

        A runtime without that command (crun before 1.9) has those of the first version of the spec: user namespaces.
        """
        if self._features is None:
            try:
                completed = await run([self.path, "features"], timeout=_CALL, env=self._env)
                said = decode_json(completed.stdout, _Features)
            except (ExitError, msgspec.DecodeError, UnicodeDecodeError):
                said = _Features(linux=_LinuxFeatures(["user"]))
            self._features = Features("rro" in said.mountOptions, "user" in said.linux.namespaces)
        return self._features

    async def start(self, container: ContainerID, process: ProcessRef | None = None) -> None:
        """Start the program of a created container. Permanent, with the runtime's message: it failed.

        ``process``: its first process, if the start has nothing else to do (the spec has no hooks).
        """
        fifo: Path | None = None
        if self._plain_runc and process is not None:
            fifo = await blocking.call(_owner(container), _made_fifo, self.root / container)
        if fifo is None or process is None:
            await self.call("start", container)
        else:
            with self._span("start", container):
                await release_exec_fifo(fifo, process, self._env)

    def _has_state(self, container: ContainerID) -> bool:
        # Blocks.
        # runc and crun have a directory of that name, other runtimes files with that prefix.
        if (self.root / container).exists():
            return True
        try:
            return any(path.name.startswith(container) for path in self.root.iterdir())
        except FileNotFoundError:
            return False

    def is_waiting(self, container: ContainerID) -> bool:
        """Whether a created container waits for its start at a FIFO. Blocks briefly."""
        return fifo_of(self.root / container) is not None

    async def delete(self, container: ContainerID, *, emptied: bool = False) -> None:
        """Remove the cgroup and state of a container whose process has ended; no error if missing.

        Without ``--force``, which polls for 100 ms. Remaining processes in a shared PID namespace are killed.
        ``emptied``: its cgroup with all processes was removed already, and it has no hooks.
        """
        if emptied and self._plain_runc:
            # Only the state directory remains: no need to run the program.
            try:
                await blocking.call(_owner(container), self._remove_state, container)
            except OSError as error:
                raise wrap(error, f"cannot remove the state of container {container}") from error
            return
        if not await blocking.call(_owner(container), self._has_state, container):
            return
        try:
            await self.call("delete", container)
        except Permanent as error:
            if "does not exist" in str(error):
                return
            # Without force, it rejects the incomplete state of a create that was killed.
            await self.call("delete", "--force", container)

    def _remove_state(self, container: ContainerID) -> None:
        if self._has_state(container):
            shutil.rmtree(self.root / container)

    async def update(self, container: ContainerID, resources: Mapping[str, object]) -> None:
        """Change the cgroup limits of a created or running container; ``resources`` as in the OCI spec."""
        data = json.dumps(resources).encode()
        await self.call("update", "--resources", "-", container, input=data)

    async def execute(
        self, container: ContainerID, process: Mapping[str, object], timeout: Seconds, output: Bytes
    ) -> ExecResult:
        """Run a process (OCI form) in a running container; return its exit code and up to ``output`` bytes of output.

        ProgramTimeout after ``timeout`` seconds (0: no limit): the command and its descendants are killed.
        """
        given, prefix = {"process.json": json.dumps(process)}, directory_prefix(container)
        async with call_directory(f"exec/{container}", self._scratch, prefix, given) as directory:
            pid_file = directory / "pid"
            files = ("--process", f"{directory}/process.json", "--pid-file", str(pid_file))
            argv = [*self._with_oom_score(process), *self._argv(str(directory)), "exec", *files, container]
            self.expect_cgroup_migration()
            command = Command(pid_file, container)
            task = asyncio.ensure_future(self._run_command(argv, command, output // 2))
            try:
                async with asyncio.timeout(timeout or None):
                    completed = await asyncio.shield(task)
            except (TimeoutError, asyncio.CancelledError) as error:
                await shielded(lambda: _end_command(task, command))
                if isinstance(error, asyncio.CancelledError):
                    raise
                words = f"container {container}: command {process.get('args')} did not end within {timeout:g} s"
                raise ProgramTimeout(f"{words} and was killed") from error
            if completed.returncode != 0:
                refusal = await blocking.call(command.owner, _refusal, pid_file, directory / "log")
                if refusal is not None:
                    raise Permanent(refusal or completed.stderr.decode(errors="replace").strip())
        code = completed.returncode
        return ExecResult(code if code >= 0 else 128 - code, completed.stdout, completed.stderr)

    async def _run_command(self, argv: list[str], command: Command, of_stream: int) -> CompletedProgram:
        def started(pid: int) -> None:
            command.runtime = pid

        try:
            with self._span("exec", command.container):
                return await run(
                    argv,
                    timeout=_FOREVER,
                    check=False,
                    max_output=of_stream,
                    cwd="/",
                    env={**self._env, **tracing.variables()},
                    on_start=started,
                )
        finally:
            command.runtime = None

    def exec_command(
        self, container: ContainerID, process: Mapping[str, object], terminal: bool
    ) -> tuple[list[str], Command, Path]:
        """Prepare a command whose streams the caller handles: the arguments to run, the command to identify it, and
        the directory of its files, which the caller removes afterwards. Blocking."""
        directory = Path(tempfile.mkdtemp(prefix=directory_prefix(container), dir=self._scratch))
        spec, pid_file = directory / "process.json", directory / "pid"
        spec.write_text(json.dumps(process))
        flags = ["--tty"] if terminal else []
        argv = [
            *self._with_oom_score(process),
            *self._argv(str(directory)),
            "exec",
            "--process",
            str(spec),
            "--pid-file",
            str(pid_file),
            *flags,
            container,
        ]
        return argv, Command(pid_file, container), directory

    async def call(self, *arguments: str, input: bytes = b"", limit: Seconds = _CALL) -> None:
        """Run a command of the runtime; the last argument is the container.

        Permanent, with the runtime's message: it failed; Transient: it took over ``limit``.
        """
        owner = _owner(arguments[-1])
        async with call_directory(owner, self._scratch, "call-", {}) as directory:
            argv = [*self._argv(str(directory)), *arguments]
            try:
                with self._observe(arguments[0]), self._span(arguments[0], arguments[-1]):
                    env = {**self._env, **tracing.variables()}
                    await run(argv, timeout=limit, input=input, cwd="/", env=env)
            except ExitError as error:
                words = await blocking.call(owner, _words, directory / "log") or str(error)
                raise Permanent(f"{Path(self.path).name} {arguments[0]}: {words}") from error
            except ProgramTimeout as error:
                raise Transient(f"{Path(self.path).name} {arguments[0]} timed out and was killed") from error

    def _span(self, operation: str, container: str) -> AbstractContextManager[object]:
        """Return a context that records an operation as a part of the current trace."""
        return tracing.span(f"{Path(self.path).name} {operation}", {"container.id": container}, nested=True)

    def _with_oom_score(self, process: Mapping[str, object]) -> list[str]:
        """The program that sets the OOM score of an exec command before the runtime runs.

        runc sets it, crun does not: the command would inherit the score of the server, which may be protected. A lower
        score than the server's needs a capability, and is left to the runtime.
        """
        score = process.get("oomScoreAdj")
        if self._plain_runc or self._choom is None or not isinstance(score, int):
            return []
        own = int(procfs.machine("self/oom_score_adj") or 0)
        return [self._choom, "-n", str(score), "--"] if score > own else []

    def _argv(self, directory: str) -> list[str]:
        return [self.path, *self.global_arguments(), f"--log={directory}/log", "--log-format=json"]


def _owner(container: str) -> str:
    """The owner of blocking calls on the runtime's files of a container."""
    return f"runtime/{container}"


def _made_fifo(state: Path) -> Path | None:
    """Find the FIFO of a container whose creation has ended; None: no process waits there. Blocks."""
    return fifo_of(state) if (state / "state.json").exists() else None


def _refusal(pid_file: Path, log: Path) -> str | None:
    """The runtime's error if it did not start the command; None: the command has run. Blocks."""
    return None if pid_file.exists() else _words(log)


def errors_in_log(path: Path) -> str:
    """The last error that a runtime wrote to its JSON log; empty: none."""
    return _words(path)


def _words(path: Path) -> str:
    found: list[str] = []
    with suppress(OSError):
        for line in path.read_bytes()[-65536:].splitlines():
            with suppress(msgspec.DecodeError, UnicodeDecodeError):
                entry = decode_json(line, _LogLine)
                if entry.level in ("error", "fatal"):
                    found.append(entry.msg)
    return found[-1] if found else ""


async def _end_command(task: "asyncio.Future[CompletedProgram]", command: Command) -> None:
    """Kill a command with its descendants; the runtime, its parent, reaps it and ends by itself."""
    if not task.done():
        await _kill(command)
    with suppress(TimeoutError, PykubeletError):
        async with asyncio.timeout(_REAP):
            await asyncio.shield(task)
    if not task.done():
        # The runtime has not started the command yet, or hangs.
        task.cancel()
        with suppress(asyncio.CancelledError, PykubeletError):
            await task
        await _kill(command)


async def _kill(command: Command) -> None:
    with suppress(Transient):
        await blocking.call(command.owner, command.kill)
