"""Combining, counting and rate-limiting events, with client-go's numbers."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pykubelet.kubelet.report.events.event_types import CorrelatedEvent, EventConfig, Occurrence
from pykubelet.kubelet.report.events.plan.correlate import COMBINED_PREFIX, Correlator
from pykubelet.models.core_v1 import ObjectReference

NO_LIMIT = EventConfig(burst=1_000_000)


def occurrence(
    message: str = "m", *, at: float = 1000.0, name: str = "web", reason: str = "Pulled", path: str = ""
) -> Occurrence:
    involved = ObjectReference(kind="Pod", namespace="ns", name=name, uid=f"uid-{name}", field_path=path)
    return Occurrence(involved, "Normal", reason, message, at)


def run(*occurrences: Occurrence, config: EventConfig = NO_LIMIT) -> list[CorrelatedEvent]:
    correlator = Correlator(config)
    return [correlator.correlate(each) for each in occurrences]


def test_the_name_is_that_of_the_object_and_the_time_in_hex() -> None:
    (reported,) = run(occurrence(at=1.5))
    assert reported.name == f"web.{1_500_000_000:x}"


def test_equal_events_are_counted() -> None:
    reported = run(*(occurrence(at=1000.0 + i) for i in range(3)))
    assert [t.count for t in reported] == [1, 2, 3]
    assert len({t.name for t in reported}) == 1
    assert {t.first_at for t in reported} == {1000.0}
    assert reported[2].occurrence.at == 1002.0


def test_events_that_differ_are_not() -> None:
    reported = run(
        occurrence(),
        occurrence("other", at=1001),
        occurrence(reason="Created", at=1002),
        occurrence(name="db", at=1003),
        occurrence(path="spec.containers{a}", at=1004),
    )
    assert [t.count for t in reported] == [1] * 5
    assert len({t.name for t in reported}) == 5


def test_from_the_tenth_different_message_on_they_are_combined() -> None:
    reported = run(*(occurrence(f"m{i}", at=1000.0 + i) for i in range(13)))
    assert [t.occurrence.message for t in reported[:9]] == [f"m{i}" for i in range(9)]
    assert [t.occurrence.message for t in reported[9:]] == [f"{COMBINED_PREFIX}m{i}" for i in range(9, 13)]
    assert [t.count for t in reported[9:]] == [1, 2, 3, 4]
    assert len({t.name for t in reported}) == 10


def test_messages_of_many_groups_are_not_held() -> None:
    correlator = Correlator(NO_LIMIT)
    tracemalloc.start()
    try:
        for name in range(200):
            for number in range(9):
                correlator.correlate(occurrence(f"{number}" + "x" * 10_000, name=f"web-{name}"))
        assert tracemalloc.get_traced_memory()[0] < 4 << 20
    finally:
        tracemalloc.stop()


def test_other_reasons_and_objects_are_not_combined_with_them() -> None:
    many = [occurrence(f"m{i}", at=1000.0 + i) for i in range(11)]
    reported = run(*many, occurrence("x", reason="Created"), occurrence("y", name="db"))
    assert [t.occurrence.message for t in reported[-2:]] == ["x", "y"]


def test_after_ten_quiet_minutes_messages_are_reported_one_by_one_again() -> None:
    many = [occurrence(f"m{i}", at=1000.0 + i) for i in range(11)]
    later = occurrence("late", at=1010.0 + 601)
    assert run(*many, later)[-1].occurrence.message == "late"
    soon = occurrence("soon", at=1010.0 + 600)
    assert run(*many, soon)[-1].occurrence.message == f"{COMBINED_PREFIX}soon"


def test_an_object_is_silenced_after_a_burst_and_recovers() -> None:
    correlator = Correlator(EventConfig())
    first = [correlator.correlate(occurrence(at=1000.0)) for _ in range(26)]
    assert [t.suppressed for t in first] == [False] * 25 + [True]
    assert first[-1].count == 26, "it counts all the same"
    assert not correlator.correlate(occurrence(name="db", at=1000.0)).suppressed
    assert correlator.correlate(occurrence(at=1299.0)).suppressed
    assert not correlator.correlate(occurrence(at=1301.0)).suppressed
    assert correlator.correlate(occurrence(at=1302.0)).suppressed


def test_warnings_do_not_silence_ordinary_events() -> None:
    correlator = Correlator(EventConfig(burst=1))
    warning = replace(occurrence(), type="Warning")
    assert [correlator.correlate(warning).suppressed for _ in range(2)] == [False, True]
    assert not correlator.correlate(occurrence()).suppressed


def test_a_clock_that_goes_back_gives_no_tokens() -> None:
    correlator = Correlator(EventConfig(burst=1))
    assert not correlator.correlate(occurrence(at=1000.0)).suppressed
    assert correlator.correlate(occurrence(at=10.0)).suppressed
    assert correlator.correlate(occurrence(at=20.0)).suppressed


def test_remembered_events_are_bounded() -> None:
    correlator = Correlator(EventConfig(max_tracked=3))
    for i in range(10):
        correlator.correlate(occurrence(name=f"p{i}", at=1000.0 + i))
    assert correlator.correlate(occurrence(name="p9", at=1020.0)).count == 2
    assert correlator.correlate(occurrence(name="p0", at=1030.0)).count == 1


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 14)), max_size=120))
def test_every_occurrence_is_counted_somewhere(events: list[tuple[int, int]]) -> None:
    reported = run(*(occurrence(f"m{m}", name=f"p{p}", at=1000.0 + i) for i, (p, m) in enumerate(events)))
    newest = {t.name: t.count for t in reported}
    assert sum(newest.values()) == len(events)
