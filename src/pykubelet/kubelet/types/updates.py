"""Updates of the desired pods, from the sources to the sync loop."""

from enum import StrEnum

from msgspec import Struct

from pykubelet.models.core_v1 import Pod


class Source(StrEnum):
    """The source of a pod; the value of the annotation ``kubernetes.io/config.source``."""

    FILE = "file"
    HTTP = "http"
    API = "api"


class PodOp(StrEnum):
    """Kind of change of pods since the source's previous update."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    REMOVE = "REMOVE"
    """The source no longer lists the pod: terminate it."""
    DELETE = "DELETE"
    """Marked for graceful deletion, still in the source (API server only)."""
    RECONCILE = "RECONCILE"
    """Only the pod's status in the source has changed."""


class PodUpdate(Struct, frozen=True):
    """Pods of one source with the same kind of change.

    An update without pods means that the source has been read and is empty.
    """

    op: PodOp
    source: Source
    pods: tuple[Pod, ...]


ANNOTATION_SOURCE = "kubernetes.io/config.source"
ANNOTATION_HASH = "kubernetes.io/config.hash"
ANNOTATION_SEEN = "kubernetes.io/config.seen"
ANNOTATION_MIRROR = "kubernetes.io/config.mirror"


def source_of(pod: Pod) -> Source:
    """Return the source of a pod from its annotation; pods without one come from the API server."""
    value = pod.metadata.annotations.get(ANNOTATION_SOURCE)
    return Source(value) if value in set(Source) else Source.API


def is_static(pod: Pod) -> bool:
    """Whether the pod is static: from a file or a URL, not owned by the API server."""
    return source_of(pod) is not Source.API


def is_mirror(pod: Pod) -> bool:
    """Whether the pod is a mirror pod, the API server's copy of a static pod."""
    return ANNOTATION_MIRROR in pod.metadata.annotations
