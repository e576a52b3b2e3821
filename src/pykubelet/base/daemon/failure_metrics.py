"""Metrics of a daemon's own process, specific to this project: failed items, hung calls, tasks."""

import asyncio
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from pykubelet.base.concurrency.blocking import hung, hung_total
from pykubelet.base.concurrency.guard import item_failures


class FailuresCollector(Collector):
    """Reads the counters of this process at each scrape. The names of its metrics begin with ``prefix``."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: registration must not trigger a scrape."""
        return []

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        text = "Items (pods, containers, files, events, records, plugins) whose handling in a loop raised an error."
        failures = CounterMetricFamily(f"{self._prefix}_item_failures", text, labels=("loop",))
        for loop, number in sorted(item_failures().items()):
            failures.add_metric((loop,), number)
        yield failures
        text = "Blocking calls that were still running at their deadline, by the kind of their owner."
        calls = CounterMetricFamily(f"{self._prefix}_hung_blocking_calls", text, labels=("owner",))
        for owner, number in sorted(hung_total().items()):
            calls.add_metric((owner,), number)
        yield calls
        text = "Blocking calls hung now."
        yield GaugeMetricFamily(f"{self._prefix}_hung_blocking_calls_now", text, value=len(hung()))
        yield GaugeMetricFamily(f"{self._prefix}_asyncio_tasks", "Tasks of the event loop.", value=_tasks())


def _tasks() -> int:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # a scrape outside an event loop
        return 0
