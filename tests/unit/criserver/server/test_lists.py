"""Lists of sandboxes and containers: entries that are kept, filters."""

import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from pykubelet.criserver.container import Container
from pykubelet.criserver.sandbox import Sandbox
from pykubelet.criserver.server import lists, view
from pykubelet.criserver.types import (
    ContainerID,
    ContainerPhase,
    ContainerRecord,
    SandboxID,
    SandboxPhase,
    SandboxRecord,
)
from pykubelet.pb import runtime_v1_pb2 as pb


def sandbox(name: str = "s123", annotations: int = 1) -> Sandbox:
    """A ready sandbox with an annotation of this many characters."""
    config = pb.PodSandboxConfig(labels={"a": "1", "b": "2"}, annotations={"note": "x" * annotations})
    record = SandboxRecord(SandboxID(name), "n", "runc", config.SerializeToString(), 5, SandboxPhase.READY)
    return Sandbox(record, monotonic=time.monotonic)


def container(name: str = "c123", annotations: int = 1) -> Container:
    """A running container with an annotation of this many characters."""
    config = pb.ContainerConfig(labels={"a": "1"}, annotations={"note": "x" * annotations})
    record = ContainerRecord(
        id=ContainerID(name),
        name="app_3",
        sandbox_id=SandboxID("s123"),
        config=config.SerializeToString(),
        created_at=1,
        image_id="sha256:1",
        image_ref="app@sha256:9",
        log_path="/log/0.log",
        cgroup="/p/c",
        stop_signal="",
        phase=ContainerPhase.RUNNING,
    )
    return Container(record, monotonic=time.monotonic)


def test_lists_have_an_entry_for_each_in_their_order() -> None:
    sandboxes, containers = [sandbox("s1"), sandbox("s2", 100_000)], [container("c1", 100_000), container("c2")]
    for _ in "first", "from kept entries":
        assert list(lists.sandbox_list(sandboxes).items) == [view.sandbox_summary(each) for each in sandboxes]
        assert list(lists.container_list(containers).containers) == [
            view.container_summary(each) for each in containers
        ]


def test_empty_lists_have_no_entry() -> None:
    assert lists.sandbox_list([]) == pb.ListPodSandboxResponse()
    assert lists.container_list([]) == pb.ListContainersResponse()


def test_entry_follows_the_record() -> None:
    pod, app = sandbox(), container()
    lists.sandbox_list([pod])
    lists.container_list([app])
    pod.record = replace(pod.record, phase=SandboxPhase.STOPPED)
    app.record = replace(app.record, phase=ContainerPhase.EXITED, image_id="sha256:2")
    assert lists.sandbox_list([pod]).items[0].state == pb.SANDBOX_NOTREADY
    [entry] = lists.container_list([app]).containers
    assert (entry.state, entry.image_id) == (pb.CONTAINER_EXITED, "sha256:2")


@pytest.mark.parametrize("made", [sandbox, container])
def test_only_small_entries_are_kept(made: Callable[[str, int], Sandbox | Container]) -> None:
    small, large = made("small", 1), made("large", 5000)
    for each in small, large:
        match each:
            case Sandbox():
                lists.sandbox_list([each])
            case Container():
                lists.container_list([each])
    assert small.list_entry
    assert not large.list_entry


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pb.PodSandboxFilter(), True),
        (pb.PodSandboxFilter(id="s1"), True),
        (pb.PodSandboxFilter(id="s2"), False),
        (pb.PodSandboxFilter(label_selector={"a": "1"}), True),
        (pb.PodSandboxFilter(label_selector={"a": "2"}), False),
        (pb.PodSandboxFilter(state=pb.PodSandboxStateValue(state=pb.SANDBOX_NOTREADY)), False),
    ],
)
def test_sandbox_filter_matches_id_state_and_labels(wanted: pb.PodSandboxFilter, expected: bool) -> None:
    assert lists.sandbox_filter(wanted)(sandbox()) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (pb.ContainerFilter(), True),
        (pb.ContainerFilter(id="c12", pod_sandbox_id="s12"), True),
        (pb.ContainerFilter(pod_sandbox_id="x"), False),
        (pb.ContainerFilter(label_selector={"b": "2"}), False),
        (pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_RUNNING)), True),
        (pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_EXITED)), False),
    ],
)
def test_container_filter_matches_id_sandbox_state_and_labels(wanted: pb.ContainerFilter, expected: bool) -> None:
    assert lists.container_filter(wanted)(container()) is expected
