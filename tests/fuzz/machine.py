"""A simulated machine for the runtime server: processes, monitors, an OCI runtime, network, namespaces, images.

It behaves like the real programs as far as the server can observe: a monitor outlives its server, and records the
exit of its container if it lives that long; the runtime keeps its state in files; the removal of a cgroup kills its
processes. Every step takes a random time.
"""

import asyncio
import json
import shutil
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pykubelet.base.errors import NotFound, Permanent, Transient
from pykubelet.base.units import Bytes
from pykubelet.criserver.cni import AttachRequest, PodAddresses
from pykubelet.criserver.conmon import Conmon, LaunchedContainer, LaunchParameters
from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.netns import NamespaceKind, NamespaceSpec
from pykubelet.criserver.oci import ExecResult, OciRuntime
from pykubelet.criserver.oci.runtime import Features
from pykubelet.criserver.spec import ImageDefaults
from pykubelet.criserver.stats.stats_interfaces import LayerUsage
from pykubelet.criserver.storage.trash import TrashUsage, UndeletedTree
from pykubelet.criserver.types import ContainerID, ProcessRef, ProtectedIds, SandboxID, UserNamespace
from pykubelet.linux.cgroups import CgroupStats
from pykubelet.linux.procfs import Stat
from tests.fuzz.simulation import RUNS_IN, Dead, SimulatedLoop

CONMON = "/simulated/conmon"
IMAGE = "app:1"
_FIRST_PID = 1 << 24
"""First PID of simulated processes, above all real PIDs."""


@dataclass
class Process:
    """A process of the simulated machine."""

    pid: int
    arguments: tuple[str, ...]
    parent: int = 0
    alive: bool = True
    ended: list["asyncio.Future[None]"] = field(default_factory=list)
    on_end: Callable[[int], None] = lambda _: None

    def end(self, code: int) -> None:
        """Handle the exit of the process; later calls have no effect."""
        if self.alive:
            self.alive = False
            for future in self.ended:
                if not future.done():
                    future.set_result(None)
            self.on_end(code)


class Machine:
    """The state of the machine that outlives server processes."""

    def __init__(self, loop: SimulatedLoop, root: Path, run: Path) -> None:
        self.loop = loop
        self.root = root
        self.run = run
        self.boots = 1
        self.processes: dict[int, Process] = {}
        self.begun: dict[str, int] = {}
        """Number of starts of each container's program."""
        self.first: dict[str, Process] = {}
        """The first process of each container."""
        self.cgroups: dict[str, str] = {}
        """The cgroup of each container that the OCI runtime has made, as the bundle names it."""
        self.rootfs: set[str] = set()
        self.namespaces: set[SandboxID] = set()
        self.attached: set[SandboxID] = set()
        self.trouble = 0.0
        """Probability that a step fails."""
        self.full = 0.0
        """Probability that a write fails because the disk is full."""
        self._work: set[asyncio.Task[None]] = set()

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    async def step(self) -> None:
        """Wait for the time of a step; the calling process may be dead afterwards."""
        self.check()
        await asyncio.sleep(self.loop.delay())
        self.check()

    def check(self) -> None:
        owner = RUNS_IN.get()
        if owner is not None and not owner.alive:
            raise Dead

    async def fallible(self, what: str) -> None:
        """Wait for the time of a step that may fail."""
        await self.step()
        if self.loop.chance.random() < self.trouble:
            raise Transient(f"{what}: an I/O error")

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work of another process than the server."""
        token = RUNS_IN.set(None)
        try:
            task = self.loop.create_task(work)
        finally:
            RUNS_IN.reset(token)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def quiet(self) -> None:
        """Wait until all work of other processes is done."""
        while self._work:
            await asyncio.wait(set(self._work))

    def spawn(self, arguments: tuple[str, ...], parent: int = 0) -> Process:
        process = Process(_FIRST_PID + len(self.processes), arguments, parent)
        self.processes[process.pid] = process
        return process

    def living(self) -> list[Process]:
        return [each for each in self.processes.values() if each.alive]

    async def reboot(self) -> None:
        """Reboot: processes, mounts and the files in /run are lost; exits are not recorded."""
        for task in tuple(self._work):
            task.cancel()
        await self.quiet()
        for process in self.living():
            process.on_end = lambda _: None
            process.end(137)
        shutil.rmtree(self.run, ignore_errors=True)
        self.run.mkdir()
        self.namespaces.clear()
        self.cgroups.clear()
        self.boots += 1

    # /proc

    def stat(self, pid: int) -> Stat | None:
        process = self.processes.get(pid)
        if process is None or not process.alive:
            return None
        return Stat(pid, "S", process.parent, pid, pid, 0, 0, pid, 1)

    def arguments(self, pid: int) -> tuple[bytes, ...] | None:
        process = self.processes.get(pid)
        return tuple(map(str.encode, process.arguments)) if process and process.alive else None

    def children(self, pid: int) -> tuple[int, ...]:
        return tuple(each.pid for each in self.living() if each.parent == pid)

    def program_path(self, pid: int) -> str | None:
        process = self.processes.get(pid)
        return process.arguments[0] if process and process.alive else None


class SimulatedPidFd:
    """A fake of ``PidFd``."""

    machine: Machine

    def __init__(self, pid: int) -> None:
        self.pid = pid
        found = self.machine.processes.get(pid)
        if found is None or not found.alive:
            raise NotFound(f"no process {pid}")
        self._process = found

    def __enter__(self) -> "SimulatedPidFd":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: no descriptor is open."""

    def exited(self) -> bool:
        return not self._process.alive

    def send_signal(self, number: int) -> None:
        self.machine.check()
        if not self._process.alive:
            raise NotFound(f"process {self.pid} has ended")
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._process.end(128 + number)

    async def wait(self) -> None:
        if self._process.alive:
            ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._process.ended.append(ended)
            await ended
        await self.machine.step()


class SimulatedConmon(Conmon):
    """Monitors are separate processes, which continue without the server."""

    def __init__(self, machine: Machine, exits: Path) -> None:
        self.path = CONMON
        self.exits = exits
        self._trust_oom_notes = True
        self._machine = machine

    async def launch(self, launch: LaunchParameters) -> LaunchedContainer:
        await self._machine.fallible("conmon")
        monitor = self._machine.spawn((CONMON, "-c", launch.container, "-b", str(launch.bundle)))
        reply: asyncio.Future[LaunchedContainer | Exception] = asyncio.get_running_loop().create_future()
        self._machine.background(self._create(launch, monitor, reply))
        outcome = await reply
        await self._machine.step()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _create(
        self, launch: LaunchParameters, monitor: Process, reply: "asyncio.Future[LaunchedContainer | Exception]"
    ) -> None:
        def answer(outcome: LaunchedContainer | Exception) -> None:
            if not reply.done():
                reply.set_result(outcome)

        assert isinstance(launch.runtime, OciRuntime), "no shims are simulated"
        state = launch.runtime.root / launch.container
        steps: tuple[Callable[[], object], ...] = (
            lambda: (launch.bundle / "conmon.pid").write_text(str(monitor.pid)),
            (launch.log or launch.bundle / "no-log").touch,
            lambda: state.mkdir(parents=True),
            lambda: self._make_cgroup(launch),
            (state / "exec.fifo").touch,
            (state / "state.json").touch,
        )
        try:
            for each in steps:
                await asyncio.sleep(self._machine.loop.delay())
                if not monitor.alive:
                    return
                each()
            await asyncio.sleep(self._machine.loop.delay())
            if monitor.alive:
                first = self._begin(launch, monitor)
                (launch.bundle / "pid").write_text(str(first.pid))
                answer(LaunchedContainer(first.pid, monitor.pid))
        except OSError as error:
            monitor.end(1)
            answer(Permanent(f"failed to create container {launch.container}: {error}"))
        finally:
            answer(Transient(f"container {launch.container}: conmon died before it created the container"))

    def _make_cgroup(self, launch: LaunchParameters) -> None:
        spec = json.loads((launch.bundle / "config.json").read_bytes())
        self._machine.cgroups[launch.container] = spec["linux"]["cgroupsPath"]

    def _begin(self, launch: LaunchParameters, monitor: Process) -> Process:
        first = self._machine.spawn(("program", launch.container), monitor.pid)
        self._machine.first[launch.container] = first

        def ended(code: int) -> None:
            self._machine.background(self._note(launch.container, monitor, code))

        first.on_end = ended
        return first

    async def _note(self, container: ContainerID, monitor: Process, code: int) -> None:
        await asyncio.sleep(self._machine.loop.delay())
        if monitor.alive and self.exits.is_dir():
            note = self.exits / f".{container}.tmp"
            note.write_text(str(code))
            note.rename(self.exits / container)
        monitor.end(0)


class SimulatedRuntime(OciRuntime):
    """A fake of runc, whose containers wait at a FIFO for their start."""

    def __init__(self, machine: Machine, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.path, self.root, self.systemd, self.keyrings = "runc", root, False, True
        self.known = self.supports_prelaunch = True
        self._machine = machine

    def expect_cgroup_migration(self) -> None:
        """Do nothing: resources of cgroups are not simulated."""

    async def features(self) -> Features:
        return Features(True, True)

    async def start(self, container: ContainerID, process: ProcessRef | None = None) -> None:
        await self._machine.fallible("runc start")
        first, fifo = self._machine.first.get(container), self.root / container / "exec.fifo"
        if first is None or not first.alive or not fifo.exists():
            raise Permanent(f"{fifo}: the process that was to become the program has died")
        fifo.unlink()
        self._machine.begun[container] = self._machine.begun.get(container, 0) + 1
        await self._machine.step()

    def is_waiting(self, container: ContainerID) -> bool:
        return (self.root / container / "exec.fifo").exists()

    async def delete(self, container: ContainerID, *, emptied: bool = False) -> None:
        await self._machine.fallible("runc delete")
        first = self._machine.first.get(container)
        if first is not None:
            assert not (emptied and first.alive), "its cgroup was to be removed with it"
            first.end(137)
        shutil.rmtree(self.root / container, ignore_errors=True)
        if not emptied:  # otherwise the server removes only the state, without the program
            self._machine.cgroups.pop(container, None)
        await self._machine.step()

    async def update(self, container: ContainerID, resources: Mapping[str, object]) -> None:
        await self._machine.fallible("runc update")

    async def execute(
        self, container: ContainerID, process: Mapping[str, object], timeout: float, output: int
    ) -> ExecResult:
        await self._machine.step()
        first = self._machine.first.get(container)
        if first is None or not first.alive:
            raise Permanent(f"container {container} does not run")
        return ExecResult(0, b"", b"")


class SimulatedCgroups:
    """Cgroups: the removal of one kills its processes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def stats(self, path: str) -> CgroupStats:
        return CgroupStats()

    def procs(self, path: str) -> tuple[int, ...]:
        return ()

    def kill(self, path: str) -> None:
        """Nothing is ever frozen."""

    def delete(self, path: str) -> None:
        for container in [each for each, cgroup in self._machine.cgroups.items() if cgroup == path]:
            del self._machine.cgroups[container]
        first = self._machine.first.get(Path(path).name)
        if first is not None:
            first.end(137)


class SimulatedNetwork:
    """Networks: addresses are recorded on the disk."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def attach(self, request: AttachRequest) -> PodAddresses:
        await self._machine.step()
        self._machine.attached.add(request.sandbox)
        await self._machine.fallible("CNI ADD")
        return PodAddresses(("10.0.0.1",))

    async def detach(self, sandbox: SandboxID, known: AttachRequest | None = None) -> None:
        await self._machine.fallible("CNI DEL")
        self._machine.attached.discard(sandbox)

    async def check(self, sandbox: SandboxID) -> None:
        await self._machine.step()

    def held(self) -> list[SandboxID]:
        return list(self._machine.attached)

    async def start(self) -> None:
        """Do nothing: there is no configuration."""

    async def reload(self) -> None:
        """Do nothing: there is no configuration."""

    def problem(self) -> str:
        return ""

    def problems(self) -> list[str]:
        return []

    def described(self) -> dict[str, object]:
        return {}


class SimulatedNamespaces:
    """A fake of ``PinnedNamespaces``."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def path(self, sandbox: SandboxID, kind: NamespaceKind) -> Path:
        return self._machine.run / "ns" / sandbox / kind.value

    def known(self) -> list[SandboxID]:
        return list(self._machine.namespaces)

    async def make(self, sandbox: SandboxID, spec: NamespaceSpec) -> None:
        await self._machine.fallible("unshare")
        self._machine.namespaces.add(sandbox)

    async def release(self, sandbox: SandboxID) -> None:
        await self._machine.fallible("umount")
        self._machine.namespaces.discard(sandbox)

    def is_pinned(self, path: str) -> bool:
        return Path(path).parent.name in self._machine.namespaces


class SimulatedUsage:
    """Usage of writable layers: always zero."""

    async def usage(self, container: ContainerID) -> LayerUsage | None:
        return LayerUsage("/", Bytes(0), 0)

    async def total(self) -> LayerUsage:
        return LayerUsage("/", Bytes(0), 0)


class SimulatedTrash:
    """The trash: always empty."""

    def undeleted(self) -> tuple[UndeletedTree, ...]:
        return ()

    async def usage(self) -> TrashUsage:
        return TrashUsage(trees=0, bytes=Bytes(0), inodes=0)


class SimulatedImages:
    """Images: there is one, and root file systems are directories on the disk."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.containers = self
        self.usage = SimulatedUsage()
        self.trash = SimulatedTrash()

    def find(self, reference: str) -> ImageFacts | None:
        if reference != IMAGE:
            return None
        return ImageFacts("sha256:1", "app@sha256:2", ImageDefaults(cmd=("program",)), "", "SIGTERM", ())

    async def ensure(self, reference: str) -> ImageFacts:
        return cast(ImageFacts, self.find(IMAGE))

    async def prepare(self, image_id: str, container: ContainerID, user: UserNamespace | None, label: str = "") -> Path:
        await self._machine.step()
        self._machine.rootfs.add(container)
        directory = self._machine.root / "rootfs" / container
        directory.mkdir(parents=True, exist_ok=True)
        await self._machine.fallible("mount")
        return directory

    async def check_use(self, image_id: str, name: str) -> None:
        await self._machine.step()

    async def make_volumes(
        self, image: ImageFacts, container: ContainerID, *, covered: frozenset[str], user: UserNamespace | None
    ) -> dict[str, str]:
        return {}

    async def make_room(self) -> None:
        return None

    async def release(self, container: ContainerID) -> None:
        await self._machine.fallible("umount")
        self._machine.rootfs.discard(container)
        with suppress(FileNotFoundError):
            shutil.rmtree(self._machine.root / "rootfs" / container)

    def recover(self, wanted: set[str], protected: ProtectedIds, repairs: object) -> None:
        for name in tuple(self._machine.rootfs):
            if name not in wanted and name not in protected:
                self._machine.rootfs.discard(name)
