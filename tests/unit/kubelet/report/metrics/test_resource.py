from pykubelet.kubelet.report.metrics.plan.resource import resource_text
from tests.unit.kubelet.report.metrics.usage import READINGS

STAMP = "1700000000500"
OF_CONTAINER = '{container="app",namespace="ns",pod="web"}'
OF_POD = '{namespace="ns",pod="web"}'


def test_resource_text_of_node_pods_and_containers() -> None:
    lines = [line for line in resource_text(READINGS).decode().splitlines() if not line.startswith("#")]
    assert lines == [
        f"container_cpu_usage_seconds_total{OF_CONTAINER} 2.5 {STAMP}",
        f"container_memory_working_set_bytes{OF_CONTAINER} 60 {STAMP}",
        f"container_start_time_seconds{OF_CONTAINER} 7.0",
        f"container_swap_limit_bytes{OF_CONTAINER} 9 {STAMP}",
        f"container_swap_usage_bytes{OF_CONTAINER} 7 {STAMP}",
        f"node_cpu_usage_seconds_total 2.5 {STAMP}",
        f"node_memory_working_set_bytes 60 {STAMP}",
        f"node_swap_usage_bytes 7 {STAMP}",
        f"pod_cpu_usage_seconds_total{OF_POD} 2.5 {STAMP}",
        f"pod_memory_working_set_bytes{OF_POD} 60 {STAMP}",
        f"pod_swap_usage_bytes{OF_POD} 7 {STAMP}",
        "resource_scrape_error 0",
    ]


def test_resource_text_without_readings_reports_an_error() -> None:
    lines = [line for line in resource_text(None).decode().splitlines() if not line.startswith("#")]
    assert lines == ["resource_scrape_error 1"]
