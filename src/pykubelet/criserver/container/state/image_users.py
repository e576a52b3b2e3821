"""The containers that use an image: made of it, or with the image mounted as a volume."""

from collections.abc import Callable

from pykubelet.criserver.container.container_interfaces import ImageFacts
from pykubelet.criserver.container.state.container_state import Container
from pykubelet.criserver.container.state.table import ContainerTable

_POD, _NAMESPACE, _NAME = "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", "io.kubernetes.container.name"


class ImageUsers:
    """Finds the containers that use an image, also ended ones: they may be started or inspected."""

    def __init__(self, *, table: ContainerTable, find: Callable[[str], ImageFacts | None]) -> None:
        self._table = table
        self._find = find

    def of(self, image_id: str) -> list[str]:
        """Return the containers as ``container NAME of pod NAMESPACE/POD``, else by their ids."""
        return [_name(each) for each in self._table if image_id in self._images(each)]

    def _images(self, container: Container) -> set[str]:
        mounted = (mount.image.image for mount in container.config.mounts if mount.HasField("image"))
        found = (self._find(reference) for reference in mounted)
        return {container.record.image_id, *(facts.id for facts in found if facts is not None)}


def _name(container: Container) -> str:
    labels = dict(container.config.labels)
    if {_POD, _NAMESPACE, _NAME} <= labels.keys():
        return f"container {labels[_NAME]} of pod {labels[_NAMESPACE]}/{labels[_POD]}"
    return f"container {container.id[:12]}"
