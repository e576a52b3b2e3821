"""The containers of the server, and the only way to change a record: in the database, then in memory."""

from collections.abc import Iterator

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.shield import shielded
from pykubelet.criserver.container.interfaces import ContainerDeps
from pykubelet.criserver.container.state import Container
from pykubelet.criserver.events import Event, EventKind
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxID


class Registry:
    """Containers by id, in the order of their creation."""

    def __init__(self, deps: ContainerDeps) -> None:
        self._deps = deps
        self._containers: dict[ContainerID, Container] = {}

    def __iter__(self) -> Iterator[Container]:
        return iter(tuple(self._containers.values()))

    def __contains__(self, container: Container) -> bool:
        return self._containers.get(container.id) is container

    def find(self, container: str) -> Container | None:
        """Find a container by its id or a unique prefix; None: unknown, or its creation is not finished."""
        found = self._containers.get(ContainerID(container))
        if found is None and container:
            matches = [each for key, each in self._containers.items() if key.startswith(container)]
            found = matches[0] if len(matches) == 1 else None
        return None if found is None or found.record.phase is ContainerPhase.MAKING else found

    def get(self, container: str) -> Container:
        """Find a container like ``find``. NotFound."""
        found = self.find(container)
        if found is None:
            raise NotFound(f"container {container!r} does not exist")
        return found

    def running(self, container: str) -> Container:
        """Find a running container. NotFound; Permanent: it is not running."""
        found = self.get(container)
        if not found.running:
            raise Permanent(f"container {found.id} is {found.record.phase.value}, not running")
        return found

    def of_sandbox(self, sandbox: SandboxID) -> list[Container]:
        """The containers of a sandbox, oldest first."""
        mine = (each for each in self._containers.values() if each.record.sandbox_id == sandbox)
        return sorted(mine, key=lambda each: each.record.created_at)

    def add(self, record: ContainerRecord) -> Container:
        """Add a record."""
        container = self._containers[record.id] = Container(record)
        return container

    def drop(self, container: Container) -> None:
        """Remove a container from memory; no error if missing."""
        self._containers.pop(container.id, None)

    def creation_time(self, sandbox: SandboxID) -> int:
        """The creation time of a new container, in ns: now, but after the sandbox's others if the clock went back."""
        return max(self.now(), *(each.record.created_at + 1 for each in self.of_sandbox(sandbox)), 0)

    async def put(self, container: Container, record: ContainerRecord) -> None:
        """Replace the record. Transient: the disk is full; nothing was changed."""

        async def work() -> None:
            await self._deps.store.put_container(record)
            container.record = record

        await shielded(work)

    async def note(self, container: Container, record: ContainerRecord) -> None:
        """Replace the record; deferred if the disk is full, since the next server sees the change on the machine."""

        async def work() -> None:
            await self._deps.store.note_container(record)
            container.record = record

        await shielded(work)

    async def forget(self, container: Container) -> None:
        """Remove the container and its record; the deletion is deferred if the disk is full."""

        async def work() -> None:
            await self._deps.store.delete_container(container.id)
            self.drop(container)

        await shielded(work)

    def publish(self, record: ContainerRecord, kind: EventKind, at: int) -> None:
        """Publish an event to the subscribers."""
        self._deps.events.publish(Event(record.id, record.sandbox_id, kind, at))

    def now(self) -> int:
        """Nanoseconds since the epoch."""
        return int(self._deps.clock.now() * 1e9)
