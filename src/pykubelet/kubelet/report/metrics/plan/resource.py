"""/metrics/resource for metrics-server, from cgroup readings. Pure; names of KEP-1748."""

from typing import Final

from pykubelet.base.exposition import Exposition, label_text
from pykubelet.kubelet.types.resources.usage import CgroupUsage, Reading, Readings

_NS: Final = 1e9
_FAMILIES: Final = (
    ("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container in core-seconds"),
    ("container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes"),
    ("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds"),
    ("container_swap_limit_bytes", "gauge", "Swap that the container may use, in bytes"),
    ("container_swap_usage_bytes", "gauge", "Swap that the container uses, in bytes"),
    ("node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the node in core-seconds"),
    ("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes"),
    ("node_swap_usage_bytes", "gauge", "Swap that the node uses, in bytes"),
    ("pod_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the pod in core-seconds"),
    ("pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes"),
    ("pod_swap_usage_bytes", "gauge", "Swap that the pod uses, in bytes"),
    ("resource_scrape_error", "gauge", "1 if there was an error while getting container metrics, 0 otherwise"),
)


def resource_text(found: Readings | None) -> bytes:
    """Return the text of /metrics/resource; None: reading failed."""
    out = Exposition()
    for name, kind, text in _FAMILIES:
        out.family(name, kind, text)
    for reading in found.readings if found is not None else ():
        if reading.container:
            _container(out, reading)
        elif reading.pod:
            _usage(out, "pod", label_text({"namespace": reading.namespace, "pod": reading.pod}), reading.usage)
        elif reading.usage.path == "/":
            _usage(out, "node", "", reading.usage)
    failed = int(found is None)
    out.add("resource_scrape_error", "", failed)
    return out.render()


def _container(out: Exposition, reading: Reading) -> None:
    labels = label_text({"container": reading.container, "namespace": reading.namespace, "pod": reading.pod})
    if reading.started > 0:
        out.add("container_start_time_seconds", labels, reading.started)
    _usage(out, "container", labels, reading.usage)
    memory = reading.usage.memory
    if memory is not None and memory.swap is not None and memory.swap_limit is not None:
        out.add("container_swap_limit_bytes", labels, memory.swap_limit, int(reading.usage.at * 1000))


def _usage(out: Exposition, of: str, labels: str, usage: CgroupUsage) -> None:
    millis = int(usage.at * 1000)
    if usage.cpu is not None:
        out.add(f"{of}_cpu_usage_seconds_total", labels, usage.cpu.total_ns / _NS, millis)
    if usage.memory is not None:
        out.add(f"{of}_memory_working_set_bytes", labels, usage.memory.working_set, millis)
        out.add(f"{of}_swap_usage_bytes", labels, usage.memory.swap, millis)
