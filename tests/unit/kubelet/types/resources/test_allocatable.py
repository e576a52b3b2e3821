"""Node allocatable, with the Go kubelet's amounts and rounding."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.base.units import Bytes
from pykubelet.kubelet.types.resources.allocatable import (
    MachineResources,
    Reservations,
    node_allocatable,
    node_capacity,
    node_status_capacity,
    pod_limit,
    unreserved,
    written,
)
from pykubelet.kubelet.types.resources.eviction import DEFAULT_HARD, hard_thresholds

GIB, KIB = 1 << 30, 1 << 10
MACHINE = MachineResources(cpus=2, memory=Bytes(8 * GIB), storage=Bytes(100 * GIB))


def allocatable(machine: MachineResources = MACHINE, **reserved: dict[str, str]) -> dict[str, str | int | float]:
    given = Reservations(
        kube=reserved.get("kube", {}), system=reserved.get("system", {}), hard=reserved.get("hard", {})
    )
    return written(node_allocatable(node_capacity(machine), given))


def test_capacity_has_one_amount_per_resource_in_canonical_form() -> None:
    machine = MachineResources(
        cpus=2,
        memory=Bytes(8 * GIB + 4 * KIB),
        storage=Bytes(100 * GIB),
        hugepages={Bytes(2 << 20): Bytes(64 << 20), Bytes(GIB): Bytes(0)},
    )
    assert written(node_capacity(machine)) == {
        "cpu": "2",
        "memory": "8388612Ki",
        "ephemeral-storage": "100Gi",
        "hugepages-2Mi": "64Mi",
        "hugepages-1Gi": "0",
    }


def test_capacity_that_the_node_shows_includes_the_number_of_pods() -> None:
    assert written(node_status_capacity(MACHINE, 110)) == {**written(node_capacity(MACHINE)), "pods": "110"}


def test_allocatable_without_reservations_is_capacity() -> None:
    assert allocatable() == {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "100Gi"}


def test_both_reservations_and_absolute_thresholds_are_subtracted() -> None:
    found = allocatable(
        kube={"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "10Gi"},
        system={"cpu": "0.25", "memory": "512Mi"},
        hard={"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "50Gi"},
    )
    assert found == {"cpu": "1650m", "memory": f"{8192 - 1024 - 512 - 100}Mi", "ephemeral-storage": "89Gi"}


@pytest.mark.parametrize(
    ("storage", "kube", "left"),
    [
        # As nodes of a managed cluster with the Go kubelet report them.
        (41152812 * KIB, "0", "37926431477"),
        (104845292 * KIB, "1Gi", "95551679124"),
        # In 64-bit arithmetic it would be 96636764160.
        (100 * GIB, "0", "96636764000"),
    ],
)
def test_percentage_is_a_32_bit_float_as_in_the_go_kubelet(storage: int, kube: str, left: str) -> None:
    machine = MachineResources(cpus=1, memory=Bytes(GIB), storage=Bytes(storage))
    found = allocatable(machine, kube={"ephemeral-storage": kube}, hard={"nodefs.available": "10%"})
    assert found["ephemeral-storage"] == left


def test_percentage_of_memory_is_rounded_down() -> None:
    # 1001 * float64(float32(0.05)) = 50.05…
    machine = MachineResources(cpus=1, memory=Bytes(1001))
    assert allocatable(machine, hard={"memory.available": "5%"})["memory"] == "951"


@pytest.mark.parametrize("share", ["0%", "100%"])
def test_threshold_of_nothing_or_everything_is_off(share: str) -> None:
    assert allocatable(hard={"nodefs.available": share, "memory.available": share}) == allocatable()


def test_threshold_of_an_unconfigured_signal_reserves_nothing() -> None:
    assert allocatable(hard={"memory.available": "1Gi"})["ephemeral-storage"] == "100Gi"


def test_fractions_of_a_unit_are_kept() -> None:
    assert allocatable(kube={"cpu": "0.0005"})["cpu"] == "1999500u"


def test_allocatable_is_never_negative() -> None:
    found = allocatable(kube={"cpu": "3", "memory": "9Gi", "ephemeral-storage": "1Ti"}, hard=dict(DEFAULT_HARD))
    assert found == {"cpu": "0", "memory": "0", "ephemeral-storage": "0"}


def test_huge_pages_are_not_allocatable_as_memory() -> None:
    pages = {Bytes(2 << 20): Bytes(GIB), Bytes(GIB): Bytes(2 * GIB)}
    found = allocatable(
        MachineResources(cpus=1, memory=Bytes(8 * GIB), hugepages=pages), hard={"memory.available": "1Gi"}
    )
    assert found == {"cpu": "1", "memory": "4Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}


def test_huge_pages_beyond_the_rest_of_memory_leave_none() -> None:
    machine = MachineResources(cpus=1, memory=Bytes(2 * GIB), hugepages={Bytes(GIB): Bytes(2 * GIB)})
    assert allocatable(machine, hard={"memory.available": "1Gi"})["memory"] == "0"


def test_reservation_of_a_resource_without_capacity_is_ignored() -> None:
    machine = MachineResources(cpus=1, memory=Bytes(GIB))
    assert allocatable(machine, kube={"ephemeral-storage": "1Gi"}, hard=dict(DEFAULT_HARD)) == {
        "cpu": "1",
        "memory": "924Mi",
    }


def test_limit_of_all_pods_includes_the_threshold() -> None:
    reserved = Reservations(kube={"memory": "1Gi", "cpu": "500m"}, hard=dict(DEFAULT_HARD))
    assert written(unreserved(node_capacity(MACHINE), reserved)) == {
        "cpu": "1500m",
        "memory": "7Gi",
        "ephemeral-storage": "100Gi",
    }


@pytest.mark.parametrize("text", ["ten%", "%", "1Quux"])
def test_invalid_threshold_is_rejected(text: str) -> None:
    with pytest.raises(Invalid):
        allocatable(hard={"memory.available": text})


@pytest.mark.parametrize(("per_core", "limit"), [(0, 110), (10, 40), (100, 110)])
def test_pod_limit_is_the_lower_of_both_limits(per_core: int, limit: int) -> None:
    assert pod_limit(110, per_core, cpus=4) == limit


def test_default_thresholds_hold_only_if_none_is_configured() -> None:
    assert hard_thresholds({}, merge_defaults=False) == DEFAULT_HARD
    assert hard_thresholds({"memory.available": "1Gi"}, merge_defaults=False) == {"memory.available": "1Gi"}


def test_merged_default_thresholds_complete_the_configured_ones() -> None:
    merged = hard_thresholds({"memory.available": "1Gi"}, merge_defaults=True)
    assert merged == {**DEFAULT_HARD, "memory.available": "1Gi"}
