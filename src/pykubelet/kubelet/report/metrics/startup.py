"""How long the machine took from its boot until it was a ready node, told once, for a node that was new."""

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments


class NodeStartup:
    """Told of the steps as they come; only the first of each kind counts."""

    def __init__(self, instruments: Instruments, clock: Clock, booted_at: Seconds) -> None:
        """``booted_at`` is Unix time; 0 if nobody knows."""
        self._own = instruments
        self._clock = clock
        self._booted_at = booted_at
        self._started_at = clock.now()
        self._tried_at: Seconds | None = None
        self._registered_at: Seconds | None = None
        self._ready = False

    def registering(self) -> None:
        """The node is about to be registered."""
        if self._tried_at is None:
            self._tried_at = self._clock.now()

    def registered(self) -> None:
        """A node that was not there before was registered."""
        if self._tried_at is None or self._registered_at is not None:
            return
        self._registered_at = self._clock.now()
        if self._booted_at:
            self._own.startup["pre_kubelet_"].set(self._started_at - self._booted_at)
        self._own.startup["pre_registration_"].set(self._tried_at - self._started_at)
        self._own.startup["registration_"].set(self._registered_at - self._tried_at)

    def ready(self) -> None:
        """The node was reported as ready."""
        if self._registered_at is None or self._ready:
            return
        self._ready = True
        now = self._clock.now()
        self._own.startup["post_registration_"].set(now - self._registered_at)
        if self._booted_at:
            self._own.startup[""].set(now - self._booted_at)
