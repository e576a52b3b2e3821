"""What the sources need of others."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.sources.types import ManifestState
from pykubelet.kubelet.types.updates import PodUpdate, Source
from pykubelet.models.core_v1 import ConfigMap, Secret

PodSink = Callable[[PodUpdate], None]
"""Takes the changes of pods, in order, without blocking (``SyncLoop.post``)."""


class ObjectSink(Protocol):
    """Takes the ConfigMaps and Secrets that manifests give (``desired.objects``)."""

    def replace(self, source: Source, objects: Iterable[ConfigMap | Secret]) -> None:
        """These are all objects of that source now."""


class ProblemSink(Protocol):
    """Takes the state of each manifest, problems included (``ManifestStates``)."""

    def replace(self, source: Source, states: Iterable[ManifestState]) -> None:
        """These are all manifests of that source now."""


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP answer: ``etag`` empty if there was none; ``body`` at most the cap and one byte more."""

    status: int
    body: bytes = b""
    etag: str = ""


class Fetch(Protocol):
    """Gets a URL (``http_fetch.AiohttpFetch``)."""

    async def get(self, url: str, headers: tuple[tuple[str, str], ...], timeout: Seconds) -> Response:
        """The answer, redirects within the same host followed. Raises Transient if there is none in time."""

    async def close(self) -> None:
        """Give connections back."""
