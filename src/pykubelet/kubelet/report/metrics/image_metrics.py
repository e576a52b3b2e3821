"""Metrics of images: pulls, the credentials for them, the records of pulled ones, and the removal of unused ones."""

from pykubelet.base.units import Bytes, Seconds
from pykubelet.kubelet.report.metrics.instruments import Instruments
from pykubelet.kubelet.report.metrics.metric_types import image_size_label


class ImageMetrics:
    """Recorder of what is done about images."""

    def __init__(self, instruments: Instruments) -> None:
        self._own = instruments

    def image_requested(self, policy: str, present: bool | None, must_pull: bool | None) -> None:
        """Count a request for an image; None: there was an error before that was known."""
        self._own.image_requests.labels(policy.lower(), _known(present), _known(must_pull)).inc()

    def image_pulled(self, seconds: Seconds, size_bytes: int) -> None:
        """Record an image pull."""
        self._own.image_pull_duration.labels(image_size_label(size_bytes)).observe(seconds)

    def credential_plugin(self, plugin: str, seconds: Seconds, failed: bool) -> None:
        """Record a run of a credential provider plugin."""
        self._own.credential_duration.labels(plugin).observe(seconds)
        if failed:
            self._own.credential_errors.labels(plugin).inc()

    def credential_config(self, config_hash: str) -> None:
        """Set the hash of the configuration of credential provider plugins."""
        self._own.credential_config.labels(config_hash).set(1)

    def pull_check(self, result: str) -> None:
        """Count a check whether a pod may use a present image, by its result."""
        self._own.pull_checks.labels(result).inc()

    def pull_records(self, intents: int, records: int) -> None:
        """Set the numbers of intents to pull images, and of records of pulled images."""
        self._own.pull_intents.set(intents)
        self._own.pulled_records.set(records)

    def image_collected(self, reason: str) -> None:
        """Count the removal of an unused image, for ``space`` or for its ``age``."""
        self._own.images_collected.labels(reason).inc()

    def runtime_trash(self, size: Bytes) -> None:
        """Set the bytes of removed containers and images that the runtime server has not deleted yet."""
        self._own.runtime_trash.set(size)


def _known(value: bool | None) -> str:
    return "unknown" if value is None else str(value).lower()
