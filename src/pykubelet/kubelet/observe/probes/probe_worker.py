"""`ProbeWorker`: runs one probe of one container periodically, and keeps its conclusion."""

import asyncio
from collections.abc import Callable

from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.probes.plan import probe_rules
from pykubelet.kubelet.observe.probes.plan.probe_rules import ProbeState
from pykubelet.kubelet.observe.probes.probe_interfaces import ProbeMetrics, Prober
from pykubelet.kubelet.observe.probes.probe_types import ProbeObservation, ProbeTarget, ProbeVerdict
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.probes import ProbeReport, ProbeResult
from pykubelet.kubelet.types.reports.events import WARNING, Reason

_METRIC_LABELS = {
    ProbeVerdict.SUCCESS: "successful",
    ProbeVerdict.WARNING: "successful",
    ProbeVerdict.FAILURE: "failed",
    ProbeVerdict.ERROR: "unknown",
}


class ProbeWorker:
    """The worker of one probe. The manager owns its task, and may cancel and restart it at any time."""

    def __init__(
        self,
        target: ProbeTarget,
        state: ProbeState,
        *,
        prober: Prober,
        telemetry: Telemetry[ProbeMetrics],
        concluded: Callable[["ProbeWorker"], None],
    ) -> None:
        """``concluded`` is called with a worker whose conclusion has changed."""
        self.target = target
        """Replaced when the pod's address changes."""
        self.state = state
        self.task: asyncio.Task[None] | None = None
        self.idle_since: Seconds | None = None
        """Time since which it waits for the next probe; None: before the first one, or while one runs."""
        self.first_delay: Seconds = 0.0
        """Seconds that the next call of `run` waits before its first probe."""
        self.last_seen: ProbeObservation | None = None
        """The result of the last try, at the Unix time ``last_at``."""
        self.last_at: Seconds = 0.0
        self._prober = prober
        self._telemetry = telemetry
        self._timing = probe_rules.timing(target.probe)
        self._concluded = concluded

    async def run(self) -> None:
        """Probe until the probe is finished, or until cancelled."""
        clock = self._telemetry.clock
        delay, self.first_delay = self.first_delay, 0.0
        while not probe_rules.is_finished(self.state):
            await clock.sleep(delay)
            self.idle_since = None
            began = clock.monotonic()
            self._process(await self._prober.probe(self.target), began)
            self.idle_since = clock.monotonic()
            delay = began + self._timing.period - self.idle_since

    def _process(self, seen: ProbeObservation, began: Seconds) -> None:
        self._report(seen, began)
        self.last_seen, self.last_at = seen, self._telemetry.clock.now()
        if seen.verdict is ProbeVerdict.ERROR:
            return
        old, result = self.state, _result(seen.verdict)
        self.state = probe_rules.observe(old, result, self._timing)
        if probe_rules.is_reported(old, self.state):
            self._concluded(self)

    def report(self) -> ProbeReport:
        """Return the probe's state."""
        target, seen = self.target, self.last_seen
        failed = seen is not None and seen.verdict is ProbeVerdict.FAILURE
        return ProbeReport(
            container=target.container.name,
            probe_type=target.probe_type,
            conclusion=self.state.conclusion,
            last=self.state.last,
            run=self.state.run,
            failure_threshold=self._timing.failure_threshold,
            message=seen.message if seen is not None and failed else "",
            error=seen.message if seen is not None and seen.verdict is ProbeVerdict.ERROR else "",
            at=self.last_at,
        )

    def _report(self, seen: ProbeObservation, began: Seconds) -> None:
        target, name = self.target, self.target.container.name
        took = self._telemetry.clock.monotonic() - began
        self._telemetry.metrics.probe(target.ref, name, target.probe_type, _METRIC_LABELS[seen.verdict], took)
        message = _event_message(target, seen)
        if message:
            reason = Reason.PROBE_WARNING if seen.verdict is ProbeVerdict.WARNING else Reason.UNHEALTHY
            self._telemetry.events.event(target.ref, WARNING, reason, message, container=name)


def _result(verdict: ProbeVerdict) -> ProbeResult:
    return ProbeResult.FAILURE if verdict is ProbeVerdict.FAILURE else ProbeResult.SUCCESS


def _event_message(target: ProbeTarget, seen: ProbeObservation) -> str:
    """Return the event's message, in the words of the Go kubelet; empty for a plain success."""
    match seen.verdict:
        case ProbeVerdict.SUCCESS:
            return ""
        case ProbeVerdict.WARNING:
            return f"{target.probe_type} probe warning: {seen.message}"
        case ProbeVerdict.FAILURE:
            return f"{target.probe_type} probe failed: {seen.message}"
        case ProbeVerdict.ERROR:
            return f"{target.probe_type} probe errored and resulted in {seen.verdict} state: {seen.message}"
