"""The intervals of PLEG's lists and checks."""

from msgspec import Struct

from pykubelet.base.units import Seconds


class PlegConfig(Struct, frozen=True):
    """Intervals of PLEG. Relist period and threshold are those of the Go kubelet (``pkg/kubelet/kubelet.go``)."""

    relist_period: Seconds = 1.0
    """Interval of the lists of all pods while the runtime sends no events."""
    relist_with_events: Seconds = 10.0
    """Interval of the lists of all pods while the runtime sends events. It bounds the delay after lost events, and is
    the only way to detect containers removed by others on runtimes that send no event for it. The Go kubelet waits
    300 s; a list every 10 s costs less than 0.1 % of a core."""
    threshold: Seconds = 180.0
    """Time without a successful list after which PLEG is unhealthy."""
    trust_after: Seconds = 2.0
    """Time that a new event stream has to last before lists become rare, since streams do not signal that they work."""
    batch_delay: Seconds = 0.25
    """Time that changes that are not urgent (a start, a change by the agent) wait for a list, to share one."""
    first_check: Seconds = 0.02
    """First interval of the checks of a pod in transition."""
    check_ratio: float = 0.1
    """Later intervals as a share of the time since the pod's last change. An end after one second is thus detected
    50 ms late on average, and a pod in transition takes some 50 checks in all."""
    single_checks: int = 4
    """Number of simultaneous checks above which one list of all pods is cheaper."""
    busy_share: float = 0.1
    """Maximum share of the time spent in lists and checks, however slow the runtime is."""
    reconnect_first: Seconds = 0.1
    """First back-off of the event stream."""
    reconnect_longest: Seconds = 5.0
    unsupported_retry: Seconds = 600.0
    """Time until a runtime without events is asked for them again: it may have been upgraded."""
