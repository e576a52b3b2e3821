"""Choosing the log file, and whether the container may write more."""

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.serve.logs.plan.log_choice import choose_attempt, container_name, may_write_more
from pykubelet.models import core_v1 as core
from pykubelet.models.scalars import time_from_unix
from tests.unit.kubelet.report.pods import NOW, container, pod, sidecar, with_meta


def state(word: str) -> core.ContainerState | None:
    match word:
        case "run":
            return core.ContainerState(running=core.ContainerStateRunning())
        case "wait" | "ErrImagePull" | "ImagePullBackOff":
            reason = "ContainerCreating" if word == "wait" else word
            return core.ContainerState(waiting=core.ContainerStateWaiting(reason=reason))
        case "":
            return None
    return core.ContainerState(terminated=core.ContainerStateTerminated(exit_code=int(word)))


def with_status(value: core.Pod, word: str, name: str = "app", *, phase: str = "Running") -> core.Pod:
    """Return the pod with the container's status given as ``STATE<LAST``, whichever kind the container is."""
    now, _, last = word.partition("<")
    status = core.ContainerStatus(
        name=name, ready=False, restart_count=0, state=state(now), last_state=state(last) if last else None
    )
    status_of = core.PodStatus(phase=phase)
    if any(c.name == name for c in value.spec.containers):
        status_of = replace(status_of, container_statuses=(status,))
    elif any(c.name == name for c in value.spec.init_containers):
        status_of = replace(status_of, init_container_statuses=(status,))
    else:
        status_of = replace(status_of, ephemeral_container_statuses=(status,))
    return replace(value, status=status_of)


def test_the_only_container_need_not_be_named() -> None:
    assert container_name(pod(), "") == "app"
    two = pod(container("a"), container("b"), init=[container("i")])
    assert container_name(two, "i") == "i"
    with pytest.raises(Invalid, match=r"choose one of: \[i a b\]"):
        container_name(two, "")
    with pytest.raises(Invalid, match="container x is not valid for pod web"):
        container_name(two, "x")


@pytest.mark.parametrize(
    ("word", "attempts", "previous", "expected"),
    [
        ("run", [3], False, 3),
        ("run<1", [3, 2], False, 3),
        ("run<1", [3, 2], True, 2),
        ("0", [0], False, 0),
        ("1<1", [4, 3], True, 3),
        ("wait<1", [4, 3], False, 4),
        ("wait<1", [4, 3], True, 4),
    ],
)
def test_attempt_is_chosen_by_container_state(word: str, attempts: list[int], previous: bool, expected: int) -> None:
    assert choose_attempt(with_status(pod(), word), "app", attempts, previous=previous) == expected


@pytest.mark.parametrize(
    ("word", "attempts", "previous", "error", "match"),
    [
        ("wait", [], False, Invalid, 'container "app" in pod "web" is waiting to start: ContainerCreating$'),
        ("ErrImagePull", [], False, Invalid, 'in pod "web" is waiting to start: image can\'t be pulled$'),
        ("ImagePullBackOff", [], False, Invalid, 'in pod "web" is waiting to start: trying and failing to pull image$'),
        ("run", [0], True, Invalid, 'previous terminated container "app" in pod "web" not found'),
        ("run<1", [3], True, NotFound, "no longer exists"),
        ("run", [], False, NotFound, "no longer exists"),
    ],
)
def test_choose_attempt_without_a_log_raises(
    word: str, attempts: list[int], previous: bool, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        choose_attempt(with_status(pod(), word), "app", attempts, previous=previous)


@pytest.mark.parametrize(
    ("word", "policy", "expected"),
    [
        ("run", "Never", True),
        ("wait", "Never", True),
        ("wait<1", "Always", True),
        ("0", "Always", True),
        ("1", "OnFailure", True),
        ("0", "OnFailure", False),
        ("1", "Never", False),
        ("", "Always", True),
    ],
)
def test_may_write_more_by_container_state(word: str, policy: str, expected: bool) -> None:
    assert may_write_more(with_status(pod(restart_policy=policy), word), "app") is expected


def test_may_write_more_of_ended_and_deleted_pods() -> None:
    assert not may_write_more(None, "app")
    assert not may_write_more(with_status(pod(), "run", phase="Failed"), "app")
    deleted = with_meta(pod(), deletion_timestamp=time_from_unix(NOW))
    assert may_write_more(with_status(deleted, "run"), "app")
    assert not may_write_more(with_status(deleted, "1"), "app")
    assert not may_write_more(pod(), "unknown")


@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        ("i", "0", False),
        ("i", "1", True),
        ("s", "0", True),
        ("debug", "1", False),
        ("debug", "run", True),
    ],
)
def test_may_write_more_of_init_and_ephemeral_containers(name: str, word: str, expected: bool) -> None:
    debug = core.EphemeralContainer(name="debug", image="busybox")
    value = pod(init=[container("i"), sidecar("s")], ephemeral=[debug])
    assert may_write_more(with_status(value, word, name), name) is expected
