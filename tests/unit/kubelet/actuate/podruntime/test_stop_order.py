"""Grace periods and the order of stops, from a pod's spec and from the labels of its containers."""

import tracemalloc

import pytest

from pykubelet.kubelet.actuate.cri_messages.labels import ParsedContainerLabels
from pykubelet.kubelet.actuate.podruntime.plan.stop_order import (
    StopOrder,
    facts_from_labels,
    remaining_grace,
    stop_order,
)
from pykubelet.kubelet.types.ids import ref_of
from tests.unit.kubelet.actuate.podruntime.build import pod_of

REF = ref_of(pod_of())


@pytest.mark.parametrize(
    ("deletion", "spec", "expected"), [(7, 30, 7), (7, None, 7), (None, 30, 30), (None, None, 2), (0, 30, 0)]
)
def test_grace_from_labels_is_that_of_the_deletion_else_of_the_spec(
    deletion: int | None, spec: int | None, expected: int
) -> None:
    noted = ParsedContainerLabels(REF, "app", deletion_grace_period=deletion, termination_grace_period=spec)
    facts = facts_from_labels(noted)
    assert (facts.ref, facts.name, facts.grace) == (REF, "app", expected)


@pytest.mark.parametrize(("elapsed", "left"), [(0.0, 30), (10.2, 20), (27.9, 3), (29.0, 2), (60.0, 2)])
def test_remaining_grace_is_in_whole_seconds_and_at_least_the_minimum(elapsed: float, left: float) -> None:
    assert remaining_grace(30, elapsed) == left


def test_sidecars_stop_in_reverse_order_after_the_ordinary_containers() -> None:
    sidecars = [{"name": name, "restartPolicy": "Always"} for name in ("first", "second", "ended")]
    pod = pod_of(({"name": "app"}, {"name": "gone"}), initContainers=[{"name": "init"}, *sidecars])
    running = ["first", "second", "app", "init"]
    assert stop_order(pod, running) == StopOrder(("app",), ("second", "first"))
    assert stop_order(None, running) == StopOrder()


def test_order_of_thousands_of_sidecars_takes_no_more_memory_than_the_pod() -> None:
    """8,000 of them took 1.3 GiB, when the pod was stopped."""
    names = [f"c{number}" for number in range(2000)]
    pod = pod_of(({"name": "app"},), initContainers=[{"name": name, "restartPolicy": "Always"} for name in names])
    running = {"app", *names}
    tracemalloc.start()
    try:
        order = stop_order(pod, running)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert order.sidecars == tuple(reversed(names))
