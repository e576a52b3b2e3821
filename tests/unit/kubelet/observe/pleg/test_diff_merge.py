"""An event that shows its whole pod is merged into the known state of the pod."""

from msgspec.structs import replace

from pykubelet.kubelet.observe.pleg.plan.diff import after, after_all, is_published, to_compare
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.runtime import ContainerState, PodEventType, PodLifecycleEvent, RuntimePod
from pykubelet.kubelet.types.runtime_events import RuntimeEvent, RuntimeEventKind
from tests.unit.kubelet.observe.pleg.fakes import container, pod, sandbox

RUNNING, EXITED = ContainerState.RUNNING, ContainerState.EXITED


def shown(known: RuntimePod | None, seen: RuntimePod) -> RuntimePod | None:
    """The pod after an event about something else that shows it so."""
    return after(known, RuntimeEvent("other", RuntimeEventKind.CREATED, 0.0, PodUID("u"), seen))


def test_pod_shown_as_ended_is_ended() -> None:
    lives, ended = pod("u", sandbox("s"), container("c")), pod("u", sandbox("s", ready=False), container("c", EXITED))
    assert shown(lives, ended) == ended
    assert shown(None, lives) == lives


def test_late_event_does_not_revive_a_pod() -> None:
    lives, ended = pod("u", sandbox("s"), container("c")), pod("u", sandbox("s", ready=False), container("c", EXITED))
    assert shown(ended, lives) == ended


def test_pod_shown_in_part_loses_nothing() -> None:
    known = pod("u", sandbox("old", ready=False), container("c", EXITED))
    new = replace(sandbox("new"), attempt=1)
    found = shown(known, pod("u", new, replace(container("d"), attempt=1)))
    assert found is not None
    assert [each.id for each in found.sandboxes] == ["new", "old"]
    assert [each.id for each in found.containers] == ["d", "c"]


def test_rows_of_a_pod_are_ordered_by_attempt_and_then_by_age() -> None:
    first, second = replace(sandbox("first"), created_at=9.0), replace(sandbox("second"), attempt=1, created_at=1.0)
    third = replace(sandbox("third"), attempt=1, created_at=2.0)
    for known, seen in ((first, (second, third)), (third, (first, second)), (second, (third, first))):
        found = shown(pod("u", known), pod("u", *seen))
        assert found is not None
        assert [each.id for each in found.sandboxes] == ["third", "second", "first"]


def test_last_row_deleted_leaves_no_pod() -> None:
    known = pod("u", sandbox("s"))
    assert after(known, RuntimeEvent("s", RuntimeEventKind.DELETED, 0.0, PodUID("u"), known)) is None
    assert after(None, RuntimeEvent("s", RuntimeEventKind.DELETED, 0.0, PodUID("u"), known)) is None


def test_events_that_arrived_during_a_list_are_applied_to_its_pods() -> None:
    listed = pod("u", sandbox("s"), container("c"))
    stopped = RuntimeEvent("c", RuntimeEventKind.STOPPED, 0.0, PodUID("u"))
    other = RuntimeEvent("c", RuntimeEventKind.DELETED, 0.0, PodUID("other"))
    assert after_all(PodUID("u"), listed, [stopped, other]) == pod("u", sandbox("s"), container("c", EXITED))
    assert after_all(PodUID("u"), None, [stopped]) is None


def test_pods_that_a_list_lacks_are_compared_first() -> None:
    seen = RuntimeEvent("c", RuntimeEventKind.STARTED, 0.0, PodUID("new"), pod("new", container("c")))
    found = to_compare([PodUID("gone"), PodUID("b")], [PodUID("b"), PodUID("a")], [seen])
    assert found == ("gone", "a", "b", "new")


def test_event_of_a_container_that_was_only_created_is_not_published() -> None:
    events = [PodLifecycleEvent(PodUID("u"), kind) for kind in PodEventType]
    kept = [event.type for event in events if is_published(event)]
    assert kept == [kind for kind in PodEventType if kind is not PodEventType.CONTAINER_CHANGED]
