"""What PLEG needs of others; handed to it by ``kubelet/main.py``."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import ContainerState, PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.runtime_events import RuntimeEvent

ListPods: TypeAlias = Callable[[], Awaitable[Iterable[RuntimePod]]]
"""All pods of the runtime, now. Raises errors of ``base.errors``."""

ListPod: TypeAlias = Callable[[PodUID], Awaitable[RuntimePod | None]]
"""One pod, now; None if the runtime has nothing of it."""

WatchEvents: TypeAlias = Callable[[Callable[[RuntimeEvent], None]], Awaitable[None]]
"""Calls the given function for every event of the runtime, and ends only with an error: ``Unsupported`` when the
runtime has no events, ``Transient`` when the stream broke (what happened meanwhile is lost)."""


class PlegMetrics(Protocol):
    """Where PLEG reports how it does; the names are the reference's."""

    def relist_duration(self, seconds: Seconds) -> None:
        """``kubelet_pleg_relist_duration_seconds``: one list of all pods, failed ones included."""

    def relist_interval(self, seconds: Seconds) -> None:
        """``kubelet_pleg_relist_interval_seconds``: since the last successful list."""

    def pod_relist_duration(self, seconds: Seconds) -> None:
        """``kubelet_pleg_pod_relist_duration_seconds``: one check of a single pod."""

    def last_seen(self, unix_time: Seconds) -> None:
        """``kubelet_pleg_last_seen_seconds``: when the last successful list began."""

    def running(self, pods: int, containers: Mapping[ContainerState, int]) -> None:
        """``kubelet_running_pods`` (with a ready sandbox) and ``kubelet_running_containers`` by state."""

    def stream_error(self) -> None:
        """``kubelet_evented_pleg_connection_error_count``."""


class NoMetrics:
    """Reports to nobody."""

    def relist_duration(self, seconds: Seconds) -> None: ...

    def relist_interval(self, seconds: Seconds) -> None: ...

    def pod_relist_duration(self, seconds: Seconds) -> None: ...

    def last_seen(self, unix_time: Seconds) -> None: ...

    def running(self, pods: int, containers: Mapping[ContainerState, int]) -> None: ...

    def stream_error(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PlegDeps:
    """All that PLEG acts through."""

    list_pods: ListPods
    list_pod: ListPod
    watch_events: WatchEvents
    on_event: Callable[[PodLifecycleEvent], None]
    """Must not block and not fail."""
    on_recovered: Callable[[], None]
    """The runtime's pods can be listed again after they could not; must not block and not fail."""
    clock: Clock
    metrics: PlegMetrics
