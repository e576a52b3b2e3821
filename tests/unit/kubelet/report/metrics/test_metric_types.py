"""Labels and counts."""

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.report.metrics.metric_types import (
    count_ephemeral,
    count_runtime,
    image_size_label,
    newly_failed_to_start,
    newly_started,
    newly_terminated,
    rejection_label,
    sandbox_newly_ready,
)
from pykubelet.kubelet.types.ids import ContainerID, SandboxID
from pykubelet.kubelet.types.runtime import (
    ContainerKind,
    ContainerState,
    ContainerSummary,
    RuntimePod,
    SandboxSummary,
)
from pykubelet.models import core_v1 as core
from tests.unit.kubelet.report.pods import REF

MB = 1024 * 1024


@pytest.mark.parametrize(
    ("size", "label"),
    [
        (0, "0-10MB"),
        (10 * MB - 1, "0-10MB"),
        (10 * MB, "10MB-100MB"),
        (100 * MB, "100MB-500MB"),
        (500 * MB, "500MB-1GB"),
        (1024 * MB, "1GB-5GB"),
        (5 * 1024 * MB, "5GB-10GB"),
        (99 * 1024 * MB, "60GB-100GB"),
        (100 * 1024 * MB, "GT100GB"),
    ],
)
def test_image_size_has_the_label_of_its_bucket(size: int, label: str) -> None:
    assert image_size_label(size) == label


@pytest.mark.parametrize(
    ("reason", "label"),
    [
        ("OutOfcpu", "OutOfcpu"),
        ("OutOfephemeral-storage", "OutOfephemeral-storage"),
        ("OutOfexample.com/gpu", "OutOfExtendedResources"),
        ("OutOfhugepages-3Mi", "OutOfExtendedResources"),
        ("NodeShutdown", "NodeShutdown"),
        ("NodeAffinity", "Other"),
    ],
)
def test_reason_of_a_rejection_is_one_of_those_that_upstream_has(reason: str, label: str) -> None:
    assert rejection_label(reason) == label


def test_counting_what_the_runtime_has() -> None:
    def made(state: ContainerState) -> ContainerSummary:
        return ContainerSummary(ContainerID("c"), "app", state, SandboxID("s"))

    ready, ended = SandboxSummary(SandboxID("s"), True), SandboxSummary(SandboxID("t"), False)
    pods = [
        RuntimePod(REF, (ready, ended), (made(ContainerState.RUNNING), made(ContainerState.EXITED))),
        RuntimePod(REF, (ended,), (made(ContainerState.EXITED),)),
    ]
    assert count_runtime(pods) == (1, {"running": 1, "exited": 2})
    assert count_runtime([]) == (0, {})


def test_ephemeral_containers_are_counted_as_pods_declare_them() -> None:
    debugged = core.Pod(spec=core.PodSpec(ephemeral_containers=(core.EphemeralContainer(name="a"),) * 2))
    assert count_ephemeral([debugged, core.Pod(), debugged]) == 4


def ended(name: str, code: int) -> core.ContainerStatus:
    end = core.ContainerStateTerminated(exit_code=code, reason="Error")
    return core.ContainerStatus(name=name, ready=False, restart_count=0, state=core.ContainerState(terminated=end))


def test_an_end_is_found_once() -> None:
    running = core.ContainerStatus(
        name="a", ready=True, restart_count=0, state=core.ContainerState(running=core.ContainerStateRunning())
    )
    before = core.PodStatus(container_statuses=(running,))
    after = core.PodStatus(
        container_statuses=(ended("a", 2),),
        init_container_statuses=(ended("i", 0),),
        ephemeral_container_statuses=(ended("e", 1),),
    )
    expected = [
        (ContainerKind.INIT, 0, "Error"),
        (ContainerKind.CONTAINER, 2, "Error"),
        (ContainerKind.EPHEMERAL, 1, "Error"),
    ]
    assert newly_terminated(before, after) == expected
    assert newly_terminated(None, after) == expected
    assert newly_terminated(after, after) == []
    assert newly_terminated(after, before) == []


def waiting(reason: str, container_id: str = "") -> core.PodStatus:
    state = core.ContainerState(waiting=core.ContainerStateWaiting(reason=reason))
    status = core.ContainerStatus(name="a", ready=False, restart_count=0, state=state, container_id=container_id)
    return core.PodStatus(init_container_statuses=(status,))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("PodInitializing", "ErrImagePull", ["ErrImagePull"]),
        ("ErrImagePull", "ErrImagePull", []),
        ("ErrImagePull", "ImagePullBackOff", ["ImagePullBackOff"]),
        ("ErrImagePull", "CrashLoopBackOff", []),
        ("ErrImagePull", "ContainerCreating", []),
    ],
)
def test_failure_to_start_counts_once_per_reason(before: str, after: str, expected: list[str]) -> None:
    found = newly_failed_to_start(waiting(before), waiting(after))
    assert found == [(ContainerKind.INIT, reason) for reason in expected]


def test_container_that_could_not_run_and_is_not_restarted_failed_to_start() -> None:
    """With restartPolicy Never it does not wait: the runtime shows it as ended."""
    ended = core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=128, reason="StartError"))
    before = waiting("ContainerCreating")
    after = replace(before, init_container_statuses=(replace(before.init_container_statuses[0], state=ended),))
    assert newly_failed_to_start(before, after) == [(ContainerKind.INIT, "RunContainerError")]
    assert newly_failed_to_start(waiting("RunContainerError"), after) == newly_failed_to_start(after, after) == []


def test_started_containers_are_those_with_a_new_id() -> None:
    none, first, second = waiting("", ""), waiting("", "x://1"), waiting("", "x://2")
    assert newly_started(none, first) == newly_started(first, second) == [ContainerKind.INIT]
    assert newly_started(core.PodStatus(), first) == [ContainerKind.INIT]
    assert newly_started(first, first) == newly_started(first, none) == []


def test_sandbox_is_new_when_its_condition_becomes_true() -> None:
    without = core.PodStatus(conditions=(core.PodCondition(type="PodReadyToStartContainers", status="False"),))
    having = core.PodStatus(conditions=(core.PodCondition(type="PodReadyToStartContainers", status="True"),))
    assert sandbox_newly_ready(without, having) and sandbox_newly_ready(core.PodStatus(), having)
    assert not sandbox_newly_ready(having, having) and not sandbox_newly_ready(having, without)
