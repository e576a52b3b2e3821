"""Interfaces of the other stages that PLEG calls; ``kubelet/compose/observe.py`` passes them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from pykubelet.base.units import Seconds
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import ContainerState, PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.runtime_events import RuntimeEvent

ListPods: TypeAlias = Callable[[], Awaitable[Iterable[RuntimePod]]]
"""Lists all pods of the runtime. Raises errors of ``base.errors``."""

ListPod: TypeAlias = Callable[[PodUID], Awaitable[RuntimePod | None]]
"""Lists one pod; None if the runtime does not have it."""

WatchEvents: TypeAlias = Callable[[Callable[[RuntimeEvent], None]], Awaitable[None]]
"""Calls the given function for every event of the runtime, and ends only with an error: ``Unsupported`` if the
runtime has no events, ``Transient`` if the stream broke (events until the next call are lost)."""


class PlegMetrics(Protocol):
    """Metrics of PLEG; names are those of the Go kubelet."""

    def relist_duration(self, seconds: Seconds) -> None:
        """``kubelet_pleg_relist_duration_seconds``: one list of all pods, failed ones included."""

    def relist_interval(self, seconds: Seconds) -> None:
        """``kubelet_pleg_relist_interval_seconds``: time since the last successful list."""

    def pod_relist_duration(self, seconds: Seconds) -> None:
        """``kubelet_pleg_pod_relist_duration_seconds``: one check of a single pod."""

    def last_seen(self, unix_time: Seconds) -> None:
        """``kubelet_pleg_last_seen_seconds``: start of the last successful list."""

    def running(self, pods: int, containers: Mapping[ContainerState, int]) -> None:
        """``kubelet_running_pods`` (with a ready sandbox) and ``kubelet_running_containers`` by state."""

    def stream_error(self) -> None:
        """``kubelet_evented_pleg_connection_error_count``."""


class PlegDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of PLEG."""

    list_pods: ListPods
    list_pod: ListPod
    watch_events: WatchEvents
    on_event: Callable[[PodLifecycleEvent], None]
    """Called with each event; must not block or raise."""
    on_recovered: Callable[[], None]
    """Called when the runtime's pods can be listed again after a failure; must not block or raise."""
    telemetry: Telemetry[PlegMetrics]
