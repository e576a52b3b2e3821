"""The table of the server's containers, in memory. It changes nothing on disk: that is ``records.py``."""

from collections.abc import Callable, Iterator

from pykubelet.base.errors import NotFound, Permanent
from pykubelet.base.units import Seconds
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.types import ContainerID, ContainerPhase, ContainerRecord, SandboxID, find_by_id


class ContainerTable:
    """Containers by id, in the order of their creation; also those whose creation or removal is not finished."""

    def __init__(self, *, monotonic: Callable[[], Seconds]) -> None:
        """``monotonic``: the clock for the histories of containers."""
        self._monotonic = monotonic
        self._containers: dict[ContainerID, Container] = {}

    def __iter__(self) -> Iterator[Container]:
        return iter(tuple(self._containers.values()))

    def __contains__(self, container: Container) -> bool:
        return self._containers.get(container.id) is container

    def visible(self) -> list[Container]:
        """The containers that clients may see."""
        return [each for each in self._containers.values() if each.visible]

    def find(self, container: str) -> Container | None:
        """Find a container by its id or a unique prefix; None: unknown, or its creation is not finished."""
        found = find_by_id(self._containers, ContainerID(container))
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

    def rootfs_names(self) -> list[str]:
        """The snapshot names of the containers' root file systems and mounted images."""
        return [name for each in self for name in (each.id, *each.image_mounts)]

    def add(self, record: ContainerRecord) -> Container:
        """Add a container: a new one, or one of the previous server."""
        container = self._containers[record.id] = Container(record, monotonic=self._monotonic)
        return container

    def drop(self, container: Container) -> None:
        """Remove a container from the table; no error if missing."""
        self._containers.pop(container.id, None)
