"""When a file that is being changed is read."""

import math

import pytest

from pykubelet.kubelet.desired.sources.plan.pending_reads import (
    PATIENCE,
    SETTLE,
    UNCLOSED,
    VANISHED,
    Change,
    PendingFiles,
    Taken,
)


@pytest.mark.parametrize(
    ("changes", "known", "delay"),
    [
        ([Change.MOVED_IN], True, 0),
        ([Change.MOVED_IN], False, 0),
        ([Change.CLOSED], False, 0),
        ([Change.CLOSED], True, SETTLE),
        ([Change.WRITTEN], True, UNCLOSED),
        ([Change.WRITTEN, Change.WRITTEN, Change.CLOSED], False, 0),
        ([Change.WRITTEN, Change.CLOSED, Change.WRITTEN], True, UNCLOSED),
        ([Change.TOUCHED], True, SETTLE),
        ([Change.WRITTEN, Change.TOUCHED], True, UNCLOSED),
        ([Change.VANISHED], True, VANISHED),
        ([Change.VANISHED, Change.TOUCHED], True, VANISHED),
        ([Change.VANISHED, Change.MOVED_IN], True, 0),
        ([Change.VANISHED, Change.WRITTEN, Change.CLOSED], True, SETTLE),
    ],
)
def test_the_last_change_decides(changes: list[Change], known: bool, delay: float) -> None:
    pending = PendingFiles()
    for change in changes:
        pending.note("a", change, known=known, now=100.0)
    assert pending.next_due() == 100.0 + delay
    assert pending.busy() == {"a"}
    pending.take(100.0 + delay)
    assert pending.busy() == frozenset()
    assert pending.next_due() == math.inf


def test_only_what_is_due_is_taken() -> None:
    pending = PendingFiles()
    pending.note("gone", Change.VANISHED, known=True, now=0.0)
    pending.note("new", Change.MOVED_IN, known=False, now=0.0)
    pending.note("open", Change.WRITTEN, known=True, now=0.0)
    assert pending.take(0.1).gone == frozenset()
    assert pending.busy() == {"gone", "open"}
    assert pending.take(VANISHED).gone == {"gone"}
    assert pending.busy() == {"open"}


def test_a_file_that_came_back_has_not_vanished() -> None:
    pending = PendingFiles()
    pending.note("a", Change.VANISHED, known=True, now=0.0)
    pending.note("a", Change.MOVED_IN, known=True, now=0.2)
    assert pending.take(10.0) == Taken(gone=frozenset(), again=frozenset())


def test_a_file_that_was_deleted_and_written_again_is_new() -> None:
    pending = PendingFiles()
    for name, known in (("a", True), ("new", False)):
        pending.note(name, Change.DELETED, known=known, now=0.0)
        pending.note(name, Change.WRITTEN, known=known, now=0.1)
        pending.note(name, Change.CLOSED, known=known, now=0.1)
    pending.note("gone", Change.DELETED, known=True, now=0.0)
    assert pending.take(10.0) == Taken(gone=frozenset({"gone"}), again=frozenset({"a"}))


def test_file_written_repeatedly_is_read_after_the_maximum_wait() -> None:
    pending = PendingFiles()
    for second in range(30):
        pending.note("log", Change.WRITTEN, known=True, now=float(second))
    assert pending.next_due() == PATIENCE
