"""Starts conmon and reads from its sync pipe whether the container was created."""

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base import tracing
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.base.files.decoding import decode_json
from pykubelet.base.proc import run
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon.files import Exit, read_exit
from pykubelet.criserver.oci.checkpoint import said_by_criu
from pykubelet.criserver.oci.runtime import errors_in_log
from pykubelet.criserver.types import ContainerID

_CREATE: Seconds = 120.0
_FORK: Seconds = 30.0
_SYNC_LIMIT = 65536


class MonitoredProgram(Protocol):
    """A program that conmon runs as its OCI runtime."""

    @property
    def path(self) -> str:
        """The program."""
        ...

    @property
    def systemd(self) -> bool:
        """Whether systemd creates the cgroups."""
        ...

    @property
    def keyrings(self) -> bool:
        """Whether it creates a session keyring for each container, and has a flag not to."""
        ...

    def monitor_arguments(self, bundle: Path) -> list[str]:
        """Its arguments before the command ``create``."""
        ...

    def expect_cgroup_migration(self) -> None:
        """Announce that it is about to migrate a process into a cgroup."""
        ...


class LaunchParameters(Struct, frozen=True):
    """The parameters of a container to create."""

    container: ContainerID
    bundle: Path
    log: Path | None
    """None: the output is discarded."""
    runtime: MonitoredProgram
    terminal: bool = False
    stdin: bool = False
    stdin_once: bool = False
    restore: Path | None = None
    """A directory of CRIU's images: its processes are restored from them, and run at once."""


class LaunchedContainer(Struct, frozen=True):
    """PIDs of the container's first process and of its conmon."""

    pid: int
    monitor: int


class _Reply(msgspec.Struct):
    data: int = -1
    """The PID; negative when the container was not created."""
    message: str = ""


class Conmon:
    """The conmon program. NotFound: it is not installed."""

    def __init__(self, program: str, exits: Path, *, trust_oom_notes: bool = True) -> None:
        """``trust_oom_notes``: whether an OOM kill that it notes is the container's.

        On cgroup v1 the kernel tells it of those in the cgroups above as well, whichever container was killed.
        """
        found = shutil.which(program)
        if found is None:
            raise NotFound(f"{program} is not installed or not on PATH (apt-get install conmon)")
        self.path = found
        self.exits = exits
        """The directory of the files with exit codes."""
        self._trust_oom_notes = trust_oom_notes

    def exit_of(self, container: ContainerID, bundle: Path) -> Exit | None:
        """Read the exit of a container; None when it has none (yet). Transient: it cannot be read for now. Blocks."""
        noted = read_exit(self.exits, bundle, container)
        return noted if noted is None or self._trust_oom_notes else replace(noted, oom_killed=False)

    async def launch(self, launch: LaunchParameters) -> LaunchedContainer:
        """Create the container as the child of a new conmon; its program does not run yet, unless it is restored.

        Permanent, with the OCI runtime's message: it cannot be created. Transient: conmon died or timed out.
        """
        with tracing.span("conmon create", {"container.id": launch.container}, nested=True):
            return await self._launch(launch)

    async def _launch(self, launch: LaunchParameters) -> LaunchedContainer:
        loop = asyncio.get_running_loop()
        reader_fd, writer_fd = os.pipe()
        reply: asyncio.Future[bytes] = loop.create_future()
        try:
            loop.add_reader(reader_fd, _Receiver(reader_fd, reply).read)
            try:
                env = {"_OCI_SYNCPIPE": str(writer_fd), "PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
                env |= tracing.variables()
                argv = [self.path, *self._arguments(launch)]
                launch.runtime.expect_cgroup_migration()
                # conmon forks at once and its parent ends, so this does not wait for the container. It notes an OOM
                # kill in its working directory.
                await run(argv, timeout=_FORK, env=env, cwd=str(launch.bundle), pass_fds=(writer_fd,))
            finally:
                os.close(writer_fd)
            async with asyncio.timeout(_CREATE):
                data = await reply
        except TimeoutError as error:
            raise Transient(f"container {launch.container}: conmon timed out after {_CREATE:g} s") from error
        finally:
            loop.remove_reader(reader_fd)
            os.close(reader_fd)
        return await blocking.call(f"container/{launch.container}", _launched, launch, data)

    def _arguments(self, launch: LaunchParameters) -> list[str]:
        bundle = launch.bundle
        log = f"k8s-file:{launch.log}" if launch.log else "off"
        flags = [
            *(["-t"] if launch.terminal else []),
            *(["-i"] if launch.stdin else []),
            *(["--leave-stdin-open"] if launch.stdin and not launch.stdin_once else []),
            *(["-s"] if launch.runtime.systemd else []),
            *(["--no-new-keyring"] if launch.runtime.keyrings and launch.restore is None else []),
            *(["--restore", str(launch.restore), "--runtime-opt=--file-locks"] if launch.restore else []),
        ]
        runtime_arguments = launch.runtime.monitor_arguments(bundle)
        return [
            *("--api-version", "1", "--full-attach", "--no-sync-log"),
            *("-c", launch.container, "-u", launch.container, "-n", launch.container[:13]),
            *("-b", str(bundle), "-r", launch.runtime.path),
            *("-p", str(bundle / "pid"), "-P", str(bundle / "conmon.pid")),
            *("-l", log, "--exit-dir", str(self.exits), "--log-level", "error"),
            *flags,
            *(f"--runtime-arg={argument}" for argument in runtime_arguments),
        ]


class _Receiver:
    """Reader of the sync pipe, until its first complete line or its end."""

    def __init__(self, fd: int, reply: "asyncio.Future[bytes]") -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._reply = reply
        self._data = b""

    def read(self) -> None:
        try:
            chunk = os.read(self._fd, 4096)
        except BlockingIOError:
            return
        self._data += chunk
        done = not chunk or b"\n" in self._data or len(self._data) > _SYNC_LIMIT
        if done and not self._reply.done():
            self._reply.set_result(self._data)


def _launched(launch: LaunchParameters, data: bytes) -> LaunchedContainer:
    # Blocks: it reads files of the bundle.
    try:
        reply = decode_json(data, _Reply)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Transient(f"container {launch.container}: conmon died before it created the container") from error
    if reply.data <= 0:
        words = errors_in_log(launch.bundle / "oci.log") or reply.message.strip() or "the runtime gave no reason"
        if launch.restore is None:
            raise Permanent(f"failed to create container {launch.container}: {words}")
        raise Permanent(
            f"failed to restore container {launch.container}: {words}{said_by_criu(launch.bundle / 'restore.log')}"
        )
    monitor = 0
    with suppress(OSError, ValueError):
        monitor = int((launch.bundle / "conmon.pid").read_bytes())
    return LaunchedContainer(reply.data, monitor)
