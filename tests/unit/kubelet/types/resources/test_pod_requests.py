"""Sums over a pod's containers: the cases of KEP-753, KEP-688 and KEP-2837."""

from collections.abc import Mapping

import pytest

from pykubelet.kubelet.types.resources.pod_requests import CPU, MEMORY, limit_declared, pod_limits, pod_requests
from pykubelet.models.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from pykubelet.models.scalars import Quantity

List = Mapping[str, Quantity]


def box(requests: List | None = None, limits: List | None = None, sidecar: bool = False) -> Container:
    return Container(
        name="c",
        resources=ResourceRequirements(requests=dict(requests or {}), limits=dict(limits or {})),
        restart_policy="Always" if sidecar else "",
    )


def pod(*containers: Container, init: tuple[Container, ...] = (), **spec: object) -> Pod:
    return Pod(spec=PodSpec(containers=containers, init_containers=init, **spec))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "cpu", "memory"),
    [
        (pod(), 0, 0),
        (pod(Container(name="none")), 0, 0),
        (pod(box({CPU: "100m", MEMORY: "1Ki"}), box({CPU: "1"})), 1100, 1024),
        # An init container sets a minimum, it does not add up.
        (pod(box({CPU: "1"}), init=(box({CPU: "500m", MEMORY: "5"}), box({CPU: "3"}))), 3000, 5),
        # A sidecar runs beside the containers, and beside the init containers after it.
        (pod(box({CPU: "1"}), init=(box({CPU: "200m"}, sidecar=True), box({CPU: "900m"}))), 1200, 0),
        (pod(box({CPU: "1"}), init=(box({CPU: "200m"}, sidecar=True), box({CPU: "2"}))), 2200, 0),
        (pod(box({CPU: "1"}), init=(box({CPU: "2"}), box({CPU: "200m"}, sidecar=True))), 2000, 0),
        (
            pod(box(), init=(box({CPU: "1"}, sidecar=True), box({CPU: "5"}), box({CPU: "2"}, sidecar=True))),
            6000,
            0,
        ),
        (pod(box({CPU: "1"}), overhead={CPU: "50m", MEMORY: "7"}), 1050, 7),
        (pod(box({CPU: "0.0001"}), box({CPU: "0.0001"})), 1, 0),
    ],
)
def test_requests_of_a_pod_are_sums_with_init_containers_as_maximum(value: Pod, cpu: int, memory: int) -> None:
    sums = pod_requests(value)
    assert (sums.cpu, sums.memory) == (cpu, memory)


def test_overhead_can_be_left_out() -> None:
    value = pod(box({CPU: "1"}), overhead={CPU: "50m"})
    assert pod_requests(value, overhead=False).cpu == 1000


def test_pod_level_replaces_what_it_names() -> None:
    level = ResourceRequirements(
        requests={CPU: "2", "hugepages-2Mi": "4Mi", "example.com/gpu": "1"}, limits={MEMORY: "1Gi"}
    )
    value = pod(box({CPU: "1", MEMORY: "10", "example.com/gpu": "2"}), resources=level, overhead={CPU: "1"})
    requests = pod_requests(value)
    assert (requests.cpu, requests.memory) == (3000, 10)
    assert requests.amount("example.com/gpu").value == 2, "only CPU, memory and huge pages count at pod level"
    assert requests.hugepages == {2 << 20: 4 << 20}
    assert pod_limits(value).memory == 1 << 30


def test_overhead_adds_to_limits_only_where_there_are_some() -> None:
    limits = pod_limits(pod(box(limits={CPU: "1"}), overhead={CPU: "50m", MEMORY: "7"}))
    assert (limits.cpu, limits.memory) == (1050, 0)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        (pod(box(limits={CPU: "1"})), True),
        (pod(box(limits={CPU: "1"}), box()), False),
        (pod(box(limits={CPU: "1"}), box(limits={CPU: "0"})), False),
        (pod(box(limits={CPU: "1"}), init=(box(),)), False),
        (pod(box(limits={CPU: "1"}), init=(box(limits={CPU: "1"}),)), True),
        # Beside a limited sidecar the sum of the step is not zero.
        (pod(box(limits={CPU: "1"}), init=(box(limits={CPU: "1"}, sidecar=True), box())), True),
        (pod(box(), resources=ResourceRequirements(limits={CPU: "1"})), True),
    ],
)
def test_limit_is_declared_if_all_containers_or_the_pod_have_it(value: Pod, declared: bool) -> None:
    assert limit_declared(value, CPU) is declared
    assert not limit_declared(value, MEMORY)


def test_names_are_kept() -> None:
    sums = pod_requests(pod(box({CPU: "0"})))
    assert CPU in sums and MEMORY not in sums
