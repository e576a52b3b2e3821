"""All metrics of the agent. Stages call the recorders in :class:`KubeletMetrics` through protocols of their own."""

from collections.abc import Callable

import prometheus_client
from prometheus_client import CollectorRegistry

from pykubelet import KUBERNETES_VERSION
from pykubelet.base.clock import Clock
from pykubelet.base.daemon.failure_metrics import FailuresCollector
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.metrics.call_metrics import CallMetrics, HttpMetrics
from pykubelet.kubelet.report.metrics.certificates import CertificateRenewals
from pykubelet.kubelet.report.metrics.image_metrics import ImageMetrics
from pykubelet.kubelet.report.metrics.instruments import PLAIN_COUNTERS, Instruments
from pykubelet.kubelet.report.metrics.node_metrics import NodeMetrics, ReloadCounts
from pykubelet.kubelet.report.metrics.observation_metrics import PlegMetrics, ProbeMetrics
from pykubelet.kubelet.report.metrics.operations import OperationMetrics
from pykubelet.kubelet.report.metrics.pod_metrics import PodMetrics
from pykubelet.kubelet.report.metrics.pod_starts import PodStarts
from pykubelet.kubelet.report.metrics.startup import NodeStartup
from pykubelet.kubelet.report.metrics.usage_texts import UsageTexts
from pykubelet.kubelet.types.ids import PodUID

__all__ = ["KubeletMetrics"]


class KubeletMetrics:
    """The recorders of all metrics, besides those of `CountsCollector`: one for each subject."""

    def __init__(
        self,
        *,
        node_name: str,
        clock: Clock,
        setup_seconds: Callable[[PodUID], Seconds] = lambda _: 0.0,
        booted_at: Callable[[], Seconds] = lambda: 0.0,
    ) -> None:
        """Create the instruments.

        ``setup_seconds`` returns the part of a pod's start spent on image pulls and init containers; ``booted_at``
        returns the Unix time of the machine's boot, 0 if unknown.
        """
        # Upstream has no ``_created`` series. The library's switch is process-wide and untyped.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        """The metrics of /metrics."""
        own = Instruments(self.registry)
        self.calls = CallMetrics(own)
        self.http = HttpMetrics(own, clock)
        self.images = ImageMetrics(own)
        self.node = NodeMetrics(own)
        self.operations = OperationMetrics(own)
        self.pleg = PlegMetrics(own)
        self.pods = PodMetrics(own)
        self.probes = ProbeMetrics()
        self.starts = PodStarts(
            instruments=own, clock=clock, setup_seconds=setup_seconds, forgotten=self.probes.forget_pod
        )
        self.startup = NodeStartup(instruments=own, clock=clock, booted_at=booted_at())
        self.reloads = ReloadCounts(self.registry)
        self.usage_texts = UsageTexts()
        own.node_name.labels(node_name).set(1)
        own.metrics_provider.labels("cadvisor").set(1)
        major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
        own.build_info.labels(KUBERNETES_VERSION, major, minor, "linux").set(1)
        self.registry.register(FailuresCollector("pykubelet"))
        prometheus_client.ProcessCollector(registry=self.registry)
        prometheus_client.PlatformCollector(registry=self.registry)

    def render(self) -> bytes:
        """Return the text of /metrics, of the type ``CONTENT_TYPE`` of ``base.exposition``."""
        text = prometheus_client.generate_latest(self.registry)
        for name in PLAIN_COUNTERS:
            text = text.replace(f"# TYPE {name} gauge".encode(), f"# TYPE {name} counter".encode())
        return text

    def render_probes(self) -> bytes:
        """Return the text of /metrics/probes."""
        return self.probes.render()

    def certificate_renewals(self, which: str) -> CertificateRenewals:
        """Return the recorder of a certificate (``client`` or ``server``) that the agent renews."""
        return CertificateRenewals(which, self.registry)
