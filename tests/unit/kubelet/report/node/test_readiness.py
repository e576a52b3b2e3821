"""Faults that make the node not ready, and the times at which its images are listed again."""

import pytest

from pykubelet.kubelet.report.node import PressureConditions, images_are_due, node_addresses, readiness_faults
from pykubelet.kubelet.types.runtime import RuntimeConditions
from pykubelet.models.core_v1 import NodeAddress

READY = RuntimeConditions(runtime_ready=True, network_ready=True)


def faults(
    runtime: RuntimeConditions = READY, pleg: str | None = None, shutdown: str | None = None, age: float = 60.0
) -> tuple[str, ...]:
    return readiness_faults(runtime=runtime, pleg=pleg, shutdown=shutdown, age=age)


def test_node_without_faults_is_ready() -> None:
    assert faults() == ()


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        (RuntimeConditions(message="socket closed", responding=False), "container runtime is down: socket closed"),
        (RuntimeConditions(False, False, "RuntimeReady=false"), "container runtime not ready: RuntimeReady=false"),
        (
            RuntimeConditions(True, False, "NetworkReady=false"),
            "container runtime network not ready: NetworkReady=false",
        ),
    ],
)
def test_runtime_that_is_down_hides_the_state_of_its_network(conditions: RuntimeConditions, fault: str) -> None:
    assert faults(conditions) == (fault,)


def test_new_agent_has_ten_seconds_for_its_first_list_of_pods() -> None:
    assert faults(pleg="no list yet", age=9.9) == ()
    assert faults(pleg="no list yet", age=10.0) == ("PLEG is not healthy: no list yet",)


def test_all_faults_are_reported_in_the_order_of_the_go_kubelet() -> None:
    found = faults(
        RuntimeConditions(message="away", responding=False), pleg="no list", shutdown="node is shutting down"
    )
    assert found == ("container runtime is down: away", "PLEG is not healthy: no list", "node is shutting down")


def test_images_are_listed_at_the_start_and_then_once_a_minute() -> None:
    assert images_are_due(None, 0.0)
    assert not images_are_due(5.0, 64.9)
    assert images_are_due(5.0, 65.0)


def test_pressure_is_that_of_the_conditions_that_hold() -> None:
    assert PressureConditions.of(set()) == PressureConditions()
    assert PressureConditions.of({"MemoryPressure", "PIDPressure"}) == PressureConditions(memory=True, pids=True)
    assert PressureConditions.of({"DiskPressure"}) == PressureConditions(disk=True)


def test_addresses_of_the_node_end_with_its_host_name() -> None:
    assert node_addresses(["10.0.0.1", "fd00::1"], "one") == (
        NodeAddress(type="InternalIP", address="10.0.0.1"),
        NodeAddress(type="InternalIP", address="fd00::1"),
        NodeAddress(type="Hostname", address="one"),
    )
