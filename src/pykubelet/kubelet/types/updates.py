"""What the sources tell the sync loop."""

from dataclasses import dataclass
from enum import StrEnum

from pykubelet.models.core_v1 import Pod


class Source(StrEnum):
    """Where a pod comes from; the value of the annotation ``kubernetes.io/config.source``."""

    FILE = "file"
    HTTP = "http"
    API = "api"


class PodOp(StrEnum):
    """What happened to pods of a source since its last update."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    REMOVE = "REMOVE"
    """Gone from the source: terminate it."""
    DELETE = "DELETE"
    """Marked for graceful deletion, still in the source (API server only)."""
    RECONCILE = "RECONCILE"
    """Only the status that the source shows has changed."""


@dataclass(frozen=True, slots=True)
class PodUpdate:
    """Some pods of one source that share one kind of change.

    An update with no pods is meaningful: it says that the source has been read and is empty.
    """

    op: PodOp
    source: Source
    pods: tuple[Pod, ...]


ANNOTATION_SOURCE = "kubernetes.io/config.source"
ANNOTATION_HASH = "kubernetes.io/config.hash"
ANNOTATION_SEEN = "kubernetes.io/config.seen"
ANNOTATION_MIRROR = "kubernetes.io/config.mirror"


def source_of(pod: Pod) -> Source:
    """The source of a pod, from its annotation; pods without one come from the API server."""
    value = pod.metadata.annotations.get(ANNOTATION_SOURCE)
    return Source(value) if value in set(Source) else Source.API


def is_static(pod: Pod) -> bool:
    """Whether the pod comes from a file or a URL, so that no API server owns it."""
    return source_of(pod) is not Source.API


def is_mirror(pod: Pod) -> bool:
    """Whether the pod is the API server's picture of a static pod."""
    return ANNOTATION_MIRROR in pod.metadata.annotations
