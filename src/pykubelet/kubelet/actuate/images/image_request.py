"""A pod's request for an image: what it asks for, what was found out about it, and the events that it sends."""

from msgspec import Struct

from pykubelet.kubelet.types.ids import PodRef, ref_of
from pykubelet.kubelet.types.reports.events import NORMAL, WARNING, EventRecorder
from pykubelet.models.core_v1 import Pod


class ImageRequest(Struct, frozen=True, kw_only=True):
    """An image that a pod needs for a container or for an image volume."""

    pod: Pod
    image: str
    """Name of the image in the pod's spec."""
    policy: str
    """Always, IfNotPresent or Never."""
    container: str = ""
    """Name of the container, for events and the timeline; empty for an image volume."""

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return ref_of(self.pod)


class RequestFindings(Struct):
    """Results of a request at its end, for the metric of requests; None: not known, or not asked for."""

    present: bool | None = None
    must_pull: bool | None = None


class RequestEvents:
    """Sends events about requests, each to the request's pod and container."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events

    def normal(self, request: ImageRequest, reason: str, message: str) -> None:
        """Send an event of type Normal."""
        self._events.event(request.ref, NORMAL, reason, message, container=request.container)

    def warning(self, request: ImageRequest, reason: str, message: str) -> None:
        """Send an event of type Warning."""
        self._events.event(request.ref, WARNING, reason, message, container=request.container)
