"""The container manager: the entry point of this package; the calls are implemented in a module for each verb.

Each change of phase is stored before the next effect; each step is idempotent.
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
    """The containers of the server, and the calls on them."""

    def __init__(self, deps: ContainerDeps) -> None:
        self._deps = deps
        self._registry = Registry(deps)
        self._cleanup = Cleanup(deps.directories, deps.cgroups, deps.conmon.path)
        self._launcher = Launcher(deps, self._cleanup)
        self._stopper = Stopper(deps, self._registry, self._launcher, self._cleanup)
        self._creator = Creator(deps, self._registry, self._stopper)
        self._starter = Starter(deps, self._registry, self._launcher, self._cleanup)
        self._updater = Updater(deps, self._registry, self._launcher)

    # Queries

    def all(self) -> Iterator[Container]:
        """The containers that clients may see."""
        return (each for each in self._registry if each.visible)

    def get(self, container: str) -> Container:
        """Find a container by its id or a unique prefix of it. NotFound."""
        return self._registry.get(container)

    def running(self, identity: str) -> Container:
        """Find a running container. NotFound; Permanent: it is not running."""
        return self._registry.running(identity)

    def of_sandbox(self, sandbox: SandboxID) -> list[Container]:
        """The containers of a sandbox, oldest first."""
        return self._registry.of_sandbox(sandbox)

    def rootfs_names(self) -> list[str]:
        """The snapshot names of the containers' root file systems and mounted images."""
        return [name for each in self._registry for name in (each.id, *image_mounts(each))]

    def bundle(self, container: ContainerID) -> Path:
        """The container's bundle: the directory with its spec and conmon's files."""
        return self._deps.directories.bundles / container

    async def spec(self, container: Container) -> dict[str, object]:
        """Read its OCI spec; empty when it is gone (after a reboot)."""
        with suppress(FileNotFoundError):
            return await self._read_bundle(container)
        return {}

    def runtime_root(self, record: ContainerRecord) -> Path:
        """Where the OCI runtime keeps the container's state directory."""
        return self._deps.runtimes[self._deps.sandboxes.handler(record.sandbox_id)].root

    def runtime(self, container: Container) -> OciRuntime:
        """The OCI runtime of the container's sandbox."""
        return self._launcher.runtime(container)

    # Calls

    async def create(self, sandbox: SandboxID, config: pb.ContainerConfig) -> ContainerID:
        """Create a container; a retry of a request gets the first one unless that was started.

        Errors: NotFound, Invalid, Conflict (the name is taken), Permanent, Transient.
        """
        container, made = await self._creator.create(sandbox, config)
        if made:
            self._launcher.begin(container)
        return container.id

    async def start(self, identity: str) -> None:
        """Start a container. Permanent: it is not in the created phase, or the OCI runtime failed (StartError)."""
        await self._starter.start(self.get(identity))

    async def stop(self, identity: str, grace: Seconds) -> None:
        """Send the stop signal, and SIGKILL after ``grace`` seconds. No error if it is not running or missing."""
        container = self._registry.find(identity)
        if container is not None:
            await self._stopper.stop(container, grace)

    async def remove(self, identity: str) -> None:
        """Remove a container; a running one is killed. No error if it does not exist."""
        container = self._registry.find(identity)
        if container is not None:
            await self._stopper.remove(container)

    async def update(self, identity: str, resources: pb.LinuxContainerResources) -> None:
        """Change its resource limits; fields that are zero are left unchanged."""
        await self._updater.update(self.get(identity), resources)

    async def execute(self, identity: str, command: list[str], timeout: Seconds) -> ExecResult:
        """Run a command in a container and wait for it. ProgramTimeout; Permanent: the container is not running."""
        container = self.running(identity)
        process = await self.exec_process(container, command)
        return await self.runtime(container).execute(container.id, process, timeout)

    async def exec_process(
        self, container: Container, command: Sequence[str], terminal: bool = False
    ) -> dict[str, object]:
        """Build the OCI process of an exec command. NotFound: the container was removed meanwhile."""
        try:
            spec = await self._read_bundle(container)
        except FileNotFoundError as error:
            why = "it was removed, or the machine was rebooted"
            raise NotFound(f"container {container.id} has no bundle: {why}") from error
        return build_exec(spec, command, terminal=terminal)

    async def reopen_log(self, identity: str) -> None:
        """Make conmon reopen the log file after a rotation; returns when the new file exists."""
        container = self.running(identity)
        owner, path = f"container/{container.id}", Path(container.record.log_path)
        await blocking.call(owner, reopen_log, self.bundle(container.id))
        deadline = self._deps.clock.monotonic() + _REOPEN
        while path.name and not await blocking.call(owner, path.exists):
            if self._deps.clock.monotonic() > deadline:
                raise Transient(f"container {container.id}: conmon did not reopen {path} within {_REOPEN:g} s")
            await self._deps.clock.sleep(0.002)

    # For sandboxes

    async def stop_all(self, sandbox: SandboxID) -> None:
        """Kill the containers of a sandbox concurrently. The sandbox must reject creations and starts already."""
        await self._stopper.stop_all(sandbox)

    async def remove_all(self, sandbox: SandboxID) -> None:
        """Remove the containers of a sandbox in the removing phase; their records are deleted with the sandbox's."""
        await self._stopper.remove_all(sandbox)

    # For recovery

    def adopt(self, record: ContainerRecord) -> Container:
        """Add a record from the store."""
        return self._registry.add(record)

    def watch(self, container: Container) -> None:
        """Follow a running container to its end."""
        self._starter.watch(container)

    def exists(self, container: Container) -> bool:
        """Whether the container has not been removed."""
        return container in self._registry

    async def finish(self, container: Container, noted: Exit | None) -> None:
        """Record its exit (None: unknown) and release what only a running one needs. The caller holds its lock."""
        await self._starter.finish_held(container, noted)

    async def purge(self, container: Container) -> None:
        """Remove all resources and the record of a container that is being removed or created. Idempotent."""
        await self._stopper.purge(container)

    async def revert_start(self, container: Container) -> None:
        """Undo an interrupted start, so that it can be started again. The caller holds its lock."""
        await self._cleanup.undo_launch(container, self.runtime(container))

    async def put(self, container: Container, record: ContainerRecord) -> None:
        """Replace the record, in the store first."""
        await self._registry.put(container, record)

    async def _read_bundle(self, container: Container) -> dict[str, object]:
        return await blocking.call(f"container/{container.id}", prepare.read_bundle, self.bundle(container.id))
