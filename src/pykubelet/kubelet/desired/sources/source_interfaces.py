"""Interfaces that the sources call."""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.sources.source_types import ManifestState
from pykubelet.kubelet.types.updates import PodUpdate, Source
from pykubelet.models.core_v1 import ConfigMap, Secret

PodSink = Callable[[PodUpdate], None]
"""Receives the changes of pods in order, without blocking (``SyncLoop.post``)."""


class ObjectSink(Protocol):
    """The receiver of the ConfigMaps and Secrets of manifests (``desired.objects``)."""

    def replace(self, source: Source, objects: Iterable[ConfigMap | Secret]) -> None:
        """Replace all objects of a source."""


class ProblemSink(Protocol):
    """The receiver of the state of each manifest, problems included (``ManifestStates``)."""

    def replace(self, source: Source, states: Iterable[ManifestState]) -> None:
        """Replace the states of all manifests of a source."""


class Response(Struct, frozen=True):
    """An HTTP response: ``etag`` is empty if absent; ``body`` is at most one byte longer than the limit."""

    status: int
    body: bytes = b""
    etag: str = ""


class Fetch(Protocol):
    """The fetch of a URL (``http_fetch.AiohttpFetch``)."""

    async def get(self, url: str, headers: tuple[tuple[str, str], ...], timeout: Seconds) -> Response:
        """Return the response, after redirects within the same host. Raises Transient, also after the timeout."""

    async def close(self) -> None:
        """Close all connections."""
