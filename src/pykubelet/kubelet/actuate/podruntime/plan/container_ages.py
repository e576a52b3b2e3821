"""Ages of containers by the monotonic clock. Pure."""

from collections.abc import Iterable

from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import ContainerID
from pykubelet.kubelet.types.runtime import ContainerSummary


class ContainerAges:
    """Remembers when containers were created, so that a jump of the wall clock changes no age that is known.

    A container that a look at the runtime finds first is no older than the look before. How old those of the first look
    are, which were created before the agent's start, only the wall clock can say.
    """

    def __init__(self) -> None:
        self._born: dict[ContainerID, Seconds] = {}
        self._looked: Seconds | None = None

    def look(self, found: Iterable[ContainerSummary], began: Seconds, now: Seconds) -> None:
        """Take all containers of the runtime; the others are forgotten.

        ``began``: monotonic time before they were listed. ``now``: Unix seconds of the wall clock.
        """
        former, looked = self._born, self._looked
        self._born, self._looked = {}, began
        for container in found:
            born = former.get(container.id)
            if born is None:
                born = began - max(0.0, now - container.created_at)
                born = born if looked is None else max(born, looked)
            self._born[container.id] = born

    def age(self, container: ContainerSummary) -> Seconds:
        """Seconds from the creation of a container until the last look that found it began."""
        assert self._looked is not None
        return self._looked - self._born[container.id]
