"""All containers: one entrance to what the modules of this package do, a verb each.

Each change of phase is stored before the next effect; each step can be repeated.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.criserver.conmon import Exit, reopen_log
from pykubelet.criserver.container import prepare
from pykubelet.criserver.container.cleanup import Cleanup, image_mounts
from pykubelet.criserver.container.create import Creator
from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.prelaunch import Launcher
from pykubelet.criserver.container.registry import Registry
from pykubelet.criserver.container.start import Starter
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.container.stop import Stopper
from pykubelet.criserver.container.update import Updater
from pykubelet.criserver.oci import ExecResult, OciRuntime
from pykubelet.criserver.spec import build_exec
from pykubelet.criserver.types import ContainerID, ContainerRecord, SandboxID
from pykubelet.pb import runtime_v1_pb2 as pb

_REOPEN: Seconds = 5.0


class ContainerManager:
    """All containers."""

    def __init__(self, deps: ContainerDeps) -> None:
        self._deps = deps
        self._registry = Registry(deps)
        self._cleanup = Cleanup(deps.directories, deps.cgroups, deps.conmon.path)
        self._launcher = Launcher(deps, self._cleanup)
        self._stopper = Stopper(deps, self._registry, self._launcher, self._cleanup)
        self._creator = Creator(deps, self._registry, self._stopper)
        self._starter = Starter(deps, self._registry, self._launcher, self._cleanup)
        self._updater = Updater(deps, self._registry, self._launcher)

    # What there is

    def all(self) -> Iterator[Container]:
        """Every container that is fully made."""
        return (each for each in self._registry if each.visible)

    def get(self, container: str) -> Container:
        """One container by its id or an unambiguous beginning of it. NotFound."""
        return self._registry.get(container)

    def running(self, identity: str) -> Container:
        """The container, which must run. NotFound, Permanent."""
        return self._registry.running(identity)

    def of_sandbox(self, sandbox: SandboxID) -> list[Container]:
        """The containers of a sandbox, oldest first."""
        return self._registry.of_sandbox(sandbox)

    def rootfs_names(self) -> list[str]:
        """The names under which containers hold root file systems and mounted images."""
        return [name for each in self._registry for name in (each.id, *image_mounts(each))]

    def bundle(self, container: ContainerID) -> Path:
        """The container's directory with its spec and conmon's files."""
        return self._deps.directories.bundles / container

    async def spec(self, container: Container) -> dict[str, object]:
        """Its OCI spec; empty when it has none any more (after a reboot)."""
        with suppress(FileNotFoundError):
            return await self._read_bundle(container)
        return {}

    def runtime_root(self, record: ContainerRecord) -> Path:
        """Where the OCI runtime keeps the container's state directory."""
        return self._deps.runtimes[self._deps.sandboxes.handler(record.sandbox_id)].root

    def runtime(self, container: Container) -> OciRuntime:
        """The OCI runtime that the container's sandbox was made for."""
        return self._launcher.runtime(container)

    # Calls

    async def create(self, sandbox: SandboxID, config: pb.ContainerConfig) -> ContainerID:
        """Make a container; a retry of a request gets what the first made, if that has not been started.

        Errors: NotFound, Invalid, Conflict (the name is taken), Permanent, Transient.
        """
        container, made = await self._creator.create(sandbox, config)
        if made:
            self._launcher.begin(container)
        return container.id

    async def start(self, identity: str) -> None:
        """Run it. Permanent: it is not in the created phase, or the OCI runtime refuses (noted as StartError)."""
        await self._starter.start(self.get(identity))

    async def stop(self, identity: str, grace: Seconds) -> None:
        """Ask it to end, and kill it after ``grace`` seconds. Done when it does not run, or does not exist."""
        container = self._registry.find(identity)
        if container is not None:
            await self._stopper.stop(container, grace)

    async def remove(self, identity: str) -> None:
        """Remove it, killing it first if it runs; done is done when it does not exist."""
        container = self._registry.find(identity)
        if container is not None:
            await self._stopper.remove(container)

    async def update(self, identity: str, resources: pb.LinuxContainerResources) -> None:
        """Change its limits; fields that are zero stay as they are."""
        await self._updater.update(self.get(identity), resources)

    async def execute(self, identity: str, command: list[str], timeout: Seconds) -> ExecResult:
        """Run a command in it to its end. ProgramTimeout; Permanent when the container does not run."""
        container = self.running(identity)
        process = await self.exec_process(container, command)
        return await self.runtime(container).execute(container.id, process, timeout)

    async def exec_process(
        self, container: Container, command: Sequence[str], terminal: bool = False
    ) -> dict[str, object]:
        """The OCI process for another command in a container. NotFound: it was removed meanwhile."""
        try:
            spec = await self._read_bundle(container)
        except FileNotFoundError as error:
            raise NotFound(f"container {container.id} has no bundle any more") from error
        return build_exec(spec, command, terminal=terminal)

    async def reopen_log(self, identity: str) -> None:
        """Have its log file opened anew after a rotation; returns when the new file is there."""
        container = self.running(identity)
        owner, path = f"container/{container.id}", Path(container.record.log_path)
        await blocking.call(owner, reopen_log, self.bundle(container.id))
        deadline = self._deps.clock.monotonic() + _REOPEN
        while path.name and not await blocking.call(owner, path.exists):
            if self._deps.clock.monotonic() > deadline:
                raise Transient(f"container {container.id}: the monitor did not reopen {path}")
            await self._deps.clock.sleep(0.002)

    # For sandboxes

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill the containers of a sandbox, all at once. It must refuse new ones and starts already."""
        await self._stopper.stop_all(sandbox)

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove the containers of a sandbox whose record says already that it goes; with it go their records."""
        await self._stopper.remove_all(sandbox)

    # For recovery

    def adopt(self, record: ContainerRecord) -> Container:
        """Take in a record from the store."""
        return self._registry.add(record)

    def watch(self, container: Container) -> None:
        """Follow a running container to its end."""
        self._starter.watch(container)

    def exists(self, container: Container) -> bool:
        """Whether it has not been removed."""
        return container in self._registry

    async def finish(self, container: Container, noted: Exit | None) -> None:
        """Note how it ended (None: not known) and free what only a running one needs. Its lock is held."""
        await self._starter.finish_held(container, noted)

    async def purge(self, container: Container) -> None:
        """Remove every trace of a container whose phase says that it is being removed. Can be repeated."""
        await self._stopper.purge(container)

    async def revert_start(self, container: Container) -> None:
        """Undo a start that was cut, so that it can be started again. Its lock is held."""
        await self._cleanup.undo_launch(container, self.runtime(container))

    async def put(self, container: Container, record: ContainerRecord) -> None:
        """Replace the record, in the store first."""
        await self._registry.put(container, record)

    async def _read_bundle(self, container: Container) -> dict[str, object]:
        return await blocking.call(f"container/{container.id}", prepare.read_bundle, self.bundle(container.id))
