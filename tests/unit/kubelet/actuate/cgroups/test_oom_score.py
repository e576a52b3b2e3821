"""OOM score adjustments: classes, the share of memory, sidecars, pod-level requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.units import GIB, Bytes
from pykubelet.kubelet.actuate.cgroups.plan.oom_score import oom_score_adj
from pykubelet.models.core_v1 import Container, EphemeralContainer, Pod, PodSpec, ResourceRequirements
from pykubelet.models.scalars import Quantity

NODE = Bytes(8 * GIB)


def box(name: str, memory: Quantity | None = None, *, full: bool = False, sidecar: bool = False) -> Container:
    requests: dict[str, Quantity] = {} if memory is None else {"memory": memory}
    if full:
        requests["cpu"] = "1"
    return Container(
        name=name,
        resources=ResourceRequirements(requests=requests, limits=requests if full else {}),
        restart_policy="Always" if sidecar else "",
    )


def score(pod: Pod, container: Container | EphemeralContainer | None = None) -> int:
    return oom_score_adj(pod, container or pod.spec.containers[0], NODE)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("1", 999),
        ("8Mi", 999),
        ("16Mi", 999),
        ("800Mi", 1000 - 97),
        ("4Gi", 500),
        ("8Gi", 3),
        ("100Gi", 3),
    ],
)
def test_burstable_falls_with_the_request(memory: str, expected: int) -> None:
    assert score(Pod(spec=PodSpec(containers=(box("a", memory), box("b"))))) == expected


def test_oom_score_of_guaranteed_and_best_effort() -> None:
    assert score(Pod(spec=PodSpec(containers=(box("a"),)))) == 1000
    assert score(Pod(spec=PodSpec(containers=(box("a", "1Gi", full=True),)))) == -997


def test_burstable_container_without_own_request_scores_999() -> None:
    pod = Pod(spec=PodSpec(containers=(box("a", "1Gi"), box("b"))))
    assert score(pod, pod.spec.containers[1]) == 999


def test_node_critical_comes_last() -> None:
    pod = Pod(spec=PodSpec(containers=(box("a"),), priority=2_000_001_000, priority_class_name="system-node-critical"))
    assert score(pod) == -997


def test_sidecar_has_no_higher_oom_score_than_its_containers() -> None:
    sidecar = box("proxy", "8Mi", sidecar=True)
    pod = Pod(spec=PodSpec(containers=(box("a", "4Gi"), box("b", "2Gi")), init_containers=(sidecar,)))
    assert score(pod, sidecar) == 750, "as the least protected of the containers"
    big = box("proxy", "6Gi", sidecar=True)
    pod = Pod(spec=PodSpec(containers=(box("a", "4Gi"),), init_containers=(big,)))
    assert score(pod, big) == 250, "its own request, if that protects more"
    plain = box("setup", "8Mi")
    pod = Pod(spec=PodSpec(containers=(box("a", "4Gi"),), init_containers=(plain,)))
    assert score(pod, plain) == 999


def test_pod_level_requests_are_shared_out() -> None:
    level = ResourceRequirements(requests={"memory": "6Gi"})
    pod = Pod(spec=PodSpec(containers=(box("a", "2Gi"), box("b")), resources=level))
    # 4 GiB are not claimed by a container: 2 GiB for each.
    assert score(pod) == 500
    assert score(pod, pod.spec.containers[1]) == 750


def test_ephemeral_container_of_a_burstable_pod_has_the_score_999() -> None:
    pod = Pod(spec=PodSpec(containers=(box("a", "4Gi"),)))
    assert score(pod, EphemeralContainer(name="debug")) == 999


@given(st.integers(0, 1 << 45), st.integers(1, 1 << 45))
def test_burstable_stays_between_the_others(request: int, capacity: int) -> None:
    pod = Pod(spec=PodSpec(containers=(box("a", request), box("b", 1))))
    assert 3 <= oom_score_adj(pod, pod.spec.containers[0], Bytes(capacity)) <= 999
