"""Manifests and fakes that the tests of the sources share."""

from collections.abc import Iterable

from pykubelet.kubelet.desired.sources.source_types import ManifestState, SourceContent
from pykubelet.kubelet.types.ids import PodRef
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Secret


def pod(name: str, image: str = "busybox:1") -> str:
    """The text of a pod."""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n"
        f"spec:\n  containers:\n  - name: c\n    image: {image}\n---\n"
    )


def config_map(name: str, value: str = "v") -> str:
    """The text of a ConfigMap."""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: {value}\n---\n"


def images(content: SourceContent) -> dict[str, str]:
    """Pod name to image: what a source wants, in short."""
    return {pod.metadata.name: pod.spec.containers[0].image for pod in content.pods}


class FakeEvents:
    """Keeps what was recorded."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str]] = []

    def event(
        self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "", **more: object
    ) -> None:
        assert (pod, event_type, container) == (None, "Warning", "")
        self.messages.append((reason, message))


class FakeObjects:
    """An object sink that keeps the names."""

    def __init__(self) -> None:
        self.names: dict[Source, list[str]] = {}

    def replace(self, source: Source, objects: Iterable[ConfigMap | Secret]) -> None:
        self.names[source] = [each.metadata.name for each in objects]


class FakeStates:
    """A problem sink that keeps the states."""

    def __init__(self) -> None:
        self.states: dict[Source, list[ManifestState]] = {}

    def replace(self, source: Source, states: Iterable[ManifestState]) -> None:
        self.states[source] = list(states)
