"""QoS classes: the table of the Kubernetes documentation, and critical pods."""

import pytest

from pykubelet.kubelet.types.resources.qos import QosClass, compute_qos, is_critical, is_node_critical, pod_qos
from pykubelet.models.core_v1 import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import Quantity

FULL: dict[str, Quantity] = {"cpu": "1", "memory": "1Gi"}
HALF: dict[str, Quantity] = {"cpu": "500m", "memory": "1Gi"}


def needs(requests: dict[str, Quantity], limits: dict[str, Quantity]) -> ResourceRequirements:
    return ResourceRequirements(requests=requests, limits=limits)


def pod(*containers: ResourceRequirements | None, level: ResourceRequirements | None = None) -> Pod:
    return Pod(spec=PodSpec(containers=tuple(Container(name="c", resources=r) for r in containers), resources=level))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (pod(None), QosClass.BEST_EFFORT),
        (pod(needs({}, {}), None), QosClass.BEST_EFFORT),
        (pod(needs({"cpu": "0"}, {"memory": "0"})), QosClass.BEST_EFFORT),
        (pod(needs({"example.com/gpu": "1"}, {"example.com/gpu": "1"})), QosClass.BEST_EFFORT),
        (pod(needs(FULL, FULL)), QosClass.GUARANTEED),
        (pod(needs({"cpu": "1000m", "memory": "1024Mi"}, FULL)), QosClass.GUARANTEED),
        (pod(needs(FULL, FULL), needs(HALF, HALF)), QosClass.GUARANTEED),
        (pod(needs(FULL, FULL), None), QosClass.BURSTABLE),
        (pod(needs(HALF, FULL)), QosClass.BURSTABLE),
        (pod(needs({}, FULL)), QosClass.BURSTABLE),  # without the API's defaulting of requests
        (pod(needs({"cpu": "1"}, {"cpu": "1"})), QosClass.BURSTABLE),
        (pod(needs(FULL, {"cpu": "1"})), QosClass.BURSTABLE),
        (pod(needs({"memory": "1"}, {})), QosClass.BURSTABLE),
        # The sums are equal, and each container has its limits.
        (pod(needs(HALF, FULL), needs(FULL, HALF)), QosClass.GUARANTEED),
        (pod(None, level=needs(FULL, FULL)), QosClass.GUARANTEED),
        (pod(needs(HALF, FULL), level=needs(FULL, FULL)), QosClass.GUARANTEED),
        (pod(None, level=needs({"cpu": "1"}, FULL)), QosClass.BURSTABLE),
        (pod(None, level=needs({"cpu": "1"}, {"cpu": "1"})), QosClass.BURSTABLE),
        (pod(None, level=needs(FULL, {})), QosClass.BURSTABLE),
        (pod(needs(FULL, FULL), level=needs({}, {})), QosClass.BEST_EFFORT),
    ],
)
def test_qos_class_follows_requests_and_limits(value: Pod, expected: QosClass) -> None:
    assert compute_qos(value) is expected


def test_init_containers_count() -> None:
    spec = PodSpec(
        containers=(Container(name="c", resources=needs(FULL, FULL)),), init_containers=(Container(name="i"),)
    )
    assert compute_qos(Pod(spec=spec)) is QosClass.BURSTABLE


def test_the_recorded_class_stands() -> None:
    assert pod_qos(Pod(status=PodStatus(qos_class="Guaranteed"))) is QosClass.GUARANTEED
    assert pod_qos(Pod(status=PodStatus(qos_class="nonsense"))) is QosClass.BEST_EFFORT
    assert pod_qos(Pod()) is QosClass.BEST_EFFORT


@pytest.mark.parametrize(
    ("annotations", "priority", "class_name", "critical", "node_critical"),
    [
        ({}, None, "", False, False),
        ({}, 1_999_999_999, "system-node-critical", False, False),
        ({}, 2_000_000_000, "system-cluster-critical", True, False),
        ({}, 2_000_001_000, "system-node-critical", True, True),
        ({"kubernetes.io/config.source": "api"}, None, "", False, False),
        ({"kubernetes.io/config.source": "file"}, None, "", True, False),
        ({"kubernetes.io/config.source": "http"}, 0, "system-node-critical", True, True),
        ({"kubernetes.io/config.mirror": "x"}, None, "", True, False),
    ],
)
def test_critical_pods_are_static_or_of_system_priority(
    annotations: dict[str, str], priority: int | None, class_name: str, critical: bool, node_critical: bool
) -> None:
    value = Pod(
        metadata=ObjectMeta(annotations=annotations),
        spec=PodSpec(priority=priority, priority_class_name=class_name),
    )
    assert is_critical(value) is critical
    assert is_node_critical(value) is node_critical
