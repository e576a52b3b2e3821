from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.observe.pleg.plan.diff import (
    ObservedState,
    apply,
    count_running,
    diff_pod,
    transition,
)
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import (
    ContainerState,
    ContainerSummary,
    PodEventType,
    PodLifecycleEvent,
    RuntimePod,
    SandboxSummary,
)
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from tests.unit.kubelet.observe.pleg.fakes import container, pod, sandbox

Row = ContainerSummary | SandboxSummary

STARTED, DIED = PodEventType.CONTAINER_STARTED, PodEventType.CONTAINER_DIED
REMOVED, CHANGED = PodEventType.CONTAINER_REMOVED, PodEventType.CONTAINER_CHANGED
CREATED, RUNNING, EXITED = ContainerState.CREATED, ContainerState.RUNNING, ContainerState.EXITED


def diff(old: Mapping[PodUID, RuntimePod], new: Mapping[PodUID, RuntimePod]) -> list[PodLifecycleEvent]:
    """The events that lead from one list of pods to another."""
    uids = old.keys() | new.keys()
    return [event for uid in uids for event in diff_pod(uid, old.get(uid), new.get(uid))]


@pytest.mark.parametrize(
    ("old", "new", "events"),
    [
        (ObservedState.ABSENT, ObservedState.RUNNING, (STARTED,)),
        (ObservedState.UNKNOWN, ObservedState.RUNNING, (STARTED,)),
        (ObservedState.EXITED, ObservedState.RUNNING, (STARTED,)),
        (ObservedState.ABSENT, ObservedState.EXITED, (DIED,)),
        (ObservedState.RUNNING, ObservedState.EXITED, (DIED,)),
        (ObservedState.UNKNOWN, ObservedState.EXITED, (DIED,)),
        (ObservedState.ABSENT, ObservedState.UNKNOWN, (CHANGED,)),
        (ObservedState.RUNNING, ObservedState.UNKNOWN, (CHANGED,)),
        (ObservedState.EXITED, ObservedState.ABSENT, (REMOVED,)),
        (ObservedState.RUNNING, ObservedState.ABSENT, (DIED, REMOVED)),
        (ObservedState.UNKNOWN, ObservedState.ABSENT, (DIED, REMOVED)),
        *((same, same, ()) for same in ObservedState),
    ],
)
def test_transition_between_states_gives_its_events(
    old: ObservedState, new: ObservedState, events: tuple[PodEventType, ...]
) -> None:
    assert transition(old, new) == events


def by_uid(*pods: RuntimePod) -> dict[PodUID, RuntimePod]:
    return {p.uid: p for p in pods}


def test_diff_of_sandboxes_and_containers_of_several_pods() -> None:
    old = by_uid(
        pod("a", sandbox("sa"), container("a1", EXITED), container("a2")),
        pod("b", sandbox("sb"), container("b1")),
        pod("same", sandbox("ss"), container("s1")),
    )
    new = by_uid(
        pod("a", sandbox("sa", ready=False), container("a2", EXITED), container("a3", CREATED)),
        pod("same", sandbox("ss"), container("s1")),
        pod("c", sandbox("sc")),
    )
    found = {(e.uid, e.type, e.container_id) for e in diff(old, new)}
    assert found == {
        ("a", DIED, "sa"),
        ("a", REMOVED, "a1"),
        ("a", DIED, "a2"),
        ("a", CHANGED, "a3"),
        ("b", DIED, "sb"),
        ("b", REMOVED, "sb"),
        ("b", DIED, "b1"),
        ("b", REMOVED, "b1"),
        ("c", STARTED, "sc"),
    }


pods = st.builds(
    lambda rows, boxes: pod(
        "u",
        *(container(f"c{i}", state) for i, state in rows.items()),
        *(sandbox(f"s{i}", ready=ready) for i, ready in boxes.items()),
    ),
    st.dictionaries(st.integers(0, 3), st.sampled_from(ContainerState), max_size=3),
    st.dictionaries(st.integers(0, 1), st.booleans(), max_size=2),
)


@given(pods, pods)
def test_diff_tells_of_every_difference_and_of_nothing_else(old: RuntimePod, new: RuntimePod) -> None:
    def looks(p: RuntimePod) -> dict[str, str]:
        same = {ContainerState.CREATED: "unknown"}
        states = {str(c.id): same.get(c.state, c.state.value) for c in p.containers}
        return states | {s.id: "running" if s.ready else "exited" for s in p.sandboxes}

    a, b = looks(old), looks(new)
    differ = {each for each in a.keys() | b.keys() if a.get(each) != b.get(each)}
    events = diff(by_uid(old), by_uid(new))
    assert {e.container_id for e in events} == differ
    assert {e.container_id for e in events if e.type is REMOVED} == a.keys() - b.keys()
    assert {e.container_id for e in events if e.type is STARTED} == {i for i in differ if b.get(i) == "running"}
    assert diff(by_uid(new), by_uid(new)) == []


@pytest.mark.parametrize(
    ("before", "kind", "after"),
    [
        (container("c", CREATED), RuntimeEventKind.STARTED, container("c", RUNNING)),
        (container("c", RUNNING), RuntimeEventKind.STOPPED, container("c", EXITED)),
        (container("c", EXITED), RuntimeEventKind.STARTED, container("c", EXITED)),
        (container("c", RUNNING), RuntimeEventKind.OOM, container("c", RUNNING)),
        (container("c", CREATED), RuntimeEventKind.CREATED, container("c", CREATED)),
        (container("c", EXITED), RuntimeEventKind.DELETED, None),
        (sandbox("c"), RuntimeEventKind.STOPPED, sandbox("c", ready=False)),
        (sandbox("c", ready=False), RuntimeEventKind.STARTED, sandbox("c", ready=False)),
        (sandbox("c"), RuntimeEventKind.DELETED, None),
    ],
)
def test_an_event_changes_what_it_is_about_and_nothing_else(
    before: Row, kind: RuntimeEventKind, after: Row | None
) -> None:
    others = (container("other"), sandbox("box"))
    expected = pod("u", *others) if after is None else pod("u", after, *others)
    assert apply(pod("u", before, *others), RuntimeEvent("c", kind, 0.0)) == expected


def test_running_pods_and_containers_are_counted() -> None:
    pods, states = count_running(
        by_uid(
            pod("a", sandbox("1"), sandbox("2", ready=False), container("c"), container("d", EXITED)),
            pod("b", sandbox("3", ready=False), container("e", EXITED)),
        )
    )
    assert pods == 1
    assert states == {
        ContainerState.RUNNING: 1,
        ContainerState.EXITED: 2,
        ContainerState.CREATED: 0,
        ContainerState.UNKNOWN: 0,
    }
