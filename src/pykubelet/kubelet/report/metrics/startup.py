"""Start-up time of a new node, from the machine's boot until the node is ready; recorded once."""

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments


class NodeStartup:
    """Records the steps of a new node's start-up; only the first call of each method counts."""

    def __init__(self, *, instruments: Instruments, clock: Clock, booted_at: Seconds) -> None:
        """Start measuring. ``booted_at`` is Unix time; 0 if unknown."""
        self._own = instruments
        self._clock = clock
        self._booted_at = booted_at
        self._started_at = clock.now()
        self._tried_at: Seconds | None = None
        self._registered_at: Seconds | None = None
        self._ready = False

    def registering(self) -> None:
        """Note that the node is about to be registered."""
        if self._tried_at is None:
            self._tried_at = self._clock.now()

    def registered(self) -> None:
        """Note that a new node was registered."""
        if self._tried_at is None or self._registered_at is not None:
            return
        self._registered_at = self._clock.now()
        if self._booted_at:
            self._own.startup["pre_kubelet_"].set(self._started_at - self._booted_at)
        self._own.startup["pre_registration_"].set(self._tried_at - self._started_at)
        self._own.startup["registration_"].set(self._registered_at - self._tried_at)

    def ready(self) -> None:
        """Note that the node was reported as ready."""
        if self._registered_at is None or self._ready:
            return
        self._ready = True
        now = self._clock.now()
        self._own.startup["post_registration_"].set(now - self._registered_at)
        if self._booted_at:
            self._own.startup[""].set(now - self._booted_at)
