"""/metrics/slis: results of the health checks, from which availability is computed (KEP-3466)."""

from collections.abc import Mapping

from pykubelet.base.exposition import Exposition, label_text

_STATUS = {True: "success", False: "error"}


class HealthSlis:
    """Counts what /healthz has found. As in the Go kubelet, nothing is checked for the metrics' sake."""

    def __init__(self) -> None:
        self._last: dict[str, bool] = {}
        self._totals: dict[tuple[str, bool], int] = {}

    def observe(self, outcomes: Mapping[str, bool]) -> None:
        """Record a run of the checks: name → healthy."""
        for name, well in outcomes.items():
            self._last[name] = well
            self._totals[name, well] = self._totals.get((name, well), 0) + 1

    def render(self) -> bytes:
        """Return the text of /metrics/slis."""
        text = Exposition()
        text.family("kubernetes_healthcheck", "gauge", "The last result of a health check.")
        for name, well in self._last.items():
            text.add("kubernetes_healthcheck", label_text([("name", name), ("type", "healthz")]), int(well))
        text.family("kubernetes_healthchecks_total", "counter", "Results of health checks.")
        for (name, well), count in self._totals.items():
            labels = label_text([("name", name), ("status", _STATUS[well]), ("type", "healthz")])
            text.add("kubernetes_healthchecks_total", labels, count)
        return text.render()
