"""Changes of resources that count as resizes."""

import pytest

from pykubelet.kubelet.report.metrics.plan.resize_counts import requested_resizes
from pykubelet.models import core_v1 as core


def made(requests: dict[str, str], limits: dict[str, str], sidecar: bool = True) -> core.Pod:
    resources = core.ResourceRequirements(requests=dict(requests), limits=dict(limits))
    init = core.Container(name="i", resources=resources, restart_policy="Always" if sidecar else "")
    return core.Pod(spec=core.PodSpec(containers=(core.Container(name="c"),), init_containers=(init,)))


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (({}, {}), ({"cpu": "1"}, {}), [("cpu", "requests", "add")]),
        (({"cpu": "1"}, {}), ({"cpu": "500m"}, {}), [("cpu", "requests", "decrease")]),
        (({}, {"memory": "1Gi"}), ({}, {}), [("memory", "limits", "remove")]),
        (
            ({"cpu": "1"}, {"memory": "1Gi"}),
            ({"cpu": "2"}, {"memory": "2Gi"}),
            [("cpu", "requests", "increase"), ("memory", "limits", "increase")],
        ),
        (({"cpu": "1"}, {}), ({"cpu": "1000m"}, {}), []),
    ],
)
def test_each_changed_amount_counts(
    before: tuple[dict[str, str], dict[str, str]],
    after: tuple[dict[str, str], dict[str, str]],
    found: list[tuple[str, str, str]],
) -> None:
    assert list(requested_resizes(made(*before), made(*after))) == found


def test_ordinary_init_containers_are_resized_like_others() -> None:
    """The gate InPlacePodVerticalScalingInitContainers, which is always on."""
    found = list(requested_resizes(made({}, {}, sidecar=False), made({"cpu": "1"}, {}, sidecar=False)))
    assert found == [("cpu", "requests", "add")]
