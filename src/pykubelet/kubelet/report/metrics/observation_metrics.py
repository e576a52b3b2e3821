"""Metrics of what is observed of containers: the runtime's states and events (PLEG), and the results of probes.

/metrics/probes serves those of probes; series of a pod that is gone are dropped.
"""

from contextlib import suppress

import prometheus_client
from msgspec import Struct
from prometheus_client import CollectorRegistry

from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments, ProbeInstruments
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.probes import ProbeType


class PlegMetrics:
    """Recorder of relists and of the runtime's events."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def pleg_relist(self, seconds: Seconds, since_last: Seconds | None) -> None:
        """Record a relist; ``since_last`` is the time since the last one, None for the first."""
        self._own.pleg_relist_duration.observe(seconds)
        if since_last is not None:
            self._own.pleg_relist_interval.observe(since_last)

    def pleg_pod_read(self, seconds: Seconds) -> None:
        """Record reading the state of one pod."""
        self._own.pleg_pod_relist_duration.observe(seconds)

    def event_stream_works(self) -> None:
        """Count a new event stream on which the first event arrived."""
        self._own.evented_connections.inc()

    def event_received(self, age: Seconds) -> None:
        """Record the delay from a runtime event until it was received."""
        self._own.evented_latency.observe(max(0.0, age))

    def event_stream_failed(self) -> None:
        """Count an event stream of the runtime that broke or could not be opened."""
        self._own.evented_errors.inc()


class ProbeSample(Struct, frozen=True):
    """The result of one run of a probe."""

    pod: PodRef
    container: str
    type: ProbeType
    result: str
    """``successful``, ``failed`` or ``unknown``."""
    seconds: Seconds


class ProbeMetrics:
    """Recorder of runs of probes, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._probes = ProbeInstruments(self._registry)
        self._probe_labels: dict[PodUID, set[tuple[str, ...]]] = {}

    def render(self) -> bytes:
        """Return the text of /metrics/probes."""
        return prometheus_client.generate_latest(self._registry)

    def probe(self, sample: ProbeSample) -> None:
        """Record one run of a probe."""
        ref, kind = sample.pod, str(sample.type)
        labels = (kind, sample.result, sample.container, ref.name, ref.namespace, ref.uid)
        self._probes.results.labels(*labels).inc()
        if sample.result == "successful":
            self._probes.duration.labels(kind, sample.container, ref.name, ref.namespace).observe(sample.seconds)
        self._probe_labels.setdefault(ref.uid, set()).add(labels)

    def forget_pod(self, uid: PodUID) -> None:
        """Drop the series of a pod, so that they do not accumulate."""
        for kind, result, container, name, namespace, _ in self._probe_labels.pop(uid, set()):
            with suppress(KeyError):
                self._probes.results.remove(kind, result, container, name, namespace, uid)
            with suppress(KeyError):
                self._probes.duration.remove(kind, container, name, namespace)
