"""The journal of decisions: what is counted, what is kept, and its bounds."""

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.report.explain import DecisionJournal
from pykubelet.kubelet.report.explain import journal as module
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.decisions import Decision, Topic
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.report.pods import NOW

UID = PodUID("u")
ADMITTED = Decision(Topic.ADMISSION, "", "admit", "no rule rejects it")


def start(reason: str, message: str = "", *, idle: bool = False) -> Decision:
    return Decision(Topic.CONTAINER, "c", "start", reason, message, idle=idle)


async def test_newest_decision_comes_first_and_equal_ones_are_counted() -> None:
    clock = VirtualClock(NOW)
    journal = DecisionJournal(clock)
    journal.add(UID, (ADMITTED, start("one", "first")))
    await clock.advance(5)
    journal.add(UID, (start("two"), start("one", "second")))
    entries = [(e.decision.reason, e.decision.message, e.first_at, e.last_at, e.count) for e in journal.of(UID).entries]
    assert entries == [
        ("one", "second", NOW, NOW + 5, 2),
        ("two", "", NOW + 5, NOW + 5, 1),
        ("no rule rejects it", "", NOW, NOW, 1),
    ]


def test_idle_decisions_are_part_of_the_last_sync_only() -> None:
    journal = DecisionJournal(VirtualClock(NOW))
    journal.synced(UID, (start("one"),))
    journal.synced(UID, (start("keep", idle=True),))
    journal.add(UID, (start("ignored", idle=True),))
    found = journal.of(UID)
    assert [e.decision.reason for e in found.entries] == ["one"]
    assert [d.reason for d in found.last_sync] == ["keep"]
    assert found.synced_at == NOW


def test_pod_that_crashes_for_days_keeps_its_admission() -> None:
    journal = DecisionJournal(VirtualClock(NOW))
    journal.add(UID, (ADMITTED,))
    for number in range(1000):
        journal.synced(UID, (start(f"reason {number}"), start("always")))
    reasons = [e.decision.reason for e in journal.of(UID).entries]
    assert len(reasons) == module.MAX_ENTRIES
    assert reasons[:2] == ["always", "reason 999"]
    assert reasons[-1] == "no rule rejects it"


@given(st.lists(st.tuples(st.sampled_from(Topic), st.text(max_size=3000), st.text(max_size=3000)), max_size=80))
def test_entries_and_bytes_of_a_pod_are_bounded(reported: list[tuple[Topic, str, str]]) -> None:
    journal = DecisionJournal(VirtualClock(NOW))
    decisions = [Decision(topic, "c", "do", reason, message) for topic, reason, message in reported]
    journal.synced(UID, decisions)
    found = journal.of(UID)
    texts = [len(e.decision.reason) + len(e.decision.message) + 3 for e in found.entries]
    assert len(texts) <= module.MAX_ENTRIES
    assert sum(texts) <= module.MAX_BYTES
    assert sum(len(d.reason) + len(d.message) + 3 for d in found.last_sync) <= module.MAX_BYTES


def test_number_of_pods_is_bounded_and_removed_ones_are_forgotten() -> None:
    journal = DecisionJournal(VirtualClock(NOW))
    for number in range(module.MAX_PODS + 5):
        journal.add(PodUID(f"p{number}"), (ADMITTED,))
    assert journal.of(PodUID("p4")).entries == ()
    assert journal.of(PodUID("p5")).entries != ()
    journal.forget(PodUID("p5"))
    journal.forget(PodUID("p5"))
    assert journal.of(PodUID("p5")).entries == ()
