"""How PLEG looks at the runtime: the pace of its lists and checks."""

from dataclasses import dataclass

from pykubelet.base.units import Seconds


@dataclass(frozen=True, slots=True)
class PlegConfig:
    """The pace. Relist period and threshold are those of the reference (``pkg/kubelet/kubelet.go``)."""

    relist_period: Seconds = 1.0
    """Between two lists of all pods while the runtime sends no events."""
    relist_with_events: Seconds = 10.0
    """The same while it does: the net for lost events, and the only way to see what is removed behind our back on
    runtimes that do not announce it. The reference waits 300 s; a list every 10 s costs less than 0.1 % of a core."""
    threshold: Seconds = 180.0
    """Without a successful list for that long, PLEG is unhealthy."""
    trust_after: Seconds = 2.0
    """How long a new event stream has to last before lists become rare: streams do not tell when they begin."""
    batch_delay: Seconds = 0.25
    """How long news that are not urgent (a start, a change of our own) may wait for a list, to share one."""
    first_check: Seconds = 0.02
    """Interval of the checks of a pod in transition, at first."""
    check_ratio: float = 0.1
    """Later intervals as a share of the time since the pod's last change. What ends after one second is thus seen
    50 ms late on average, and watching a pod takes some 50 checks in all."""
    single_checks: int = 4
    """With more pods to check at once, one list of all pods is cheaper."""
    busy_share: float = 0.1
    """At most that share of the time is spent in lists and checks, however slow the runtime."""
    reconnect_first: Seconds = 0.1
    """Back-off of the event stream, at first."""
    reconnect_longest: Seconds = 5.0
    unsupported_retry: Seconds = 600.0
    """When to ask again for events that the runtime does not have: it may have been upgraded."""
