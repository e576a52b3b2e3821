"""A file that is being changed is read after its last change, or after the maximum wait."""

import math

import pytest

from pykubelet.kubelet.desired.sources.plan.pending_reads import (
    PATIENCE,
    SETTLE,
    UNCLOSED,
    VANISHED,
    DueFiles,
    ManifestChange,
    PendingFiles,
)


@pytest.mark.parametrize(
    ("changes", "known", "delay"),
    [
        ([ManifestChange.MOVED_IN], True, 0),
        ([ManifestChange.MOVED_IN], False, 0),
        ([ManifestChange.CLOSED], False, 0),
        ([ManifestChange.CLOSED], True, SETTLE),
        ([ManifestChange.WRITTEN], True, UNCLOSED),
        ([ManifestChange.WRITTEN, ManifestChange.WRITTEN, ManifestChange.CLOSED], False, 0),
        ([ManifestChange.WRITTEN, ManifestChange.CLOSED, ManifestChange.WRITTEN], True, UNCLOSED),
        ([ManifestChange.TOUCHED], True, SETTLE),
        ([ManifestChange.WRITTEN, ManifestChange.TOUCHED], True, UNCLOSED),
        ([ManifestChange.VANISHED], True, VANISHED),
        ([ManifestChange.VANISHED, ManifestChange.TOUCHED], True, VANISHED),
        ([ManifestChange.VANISHED, ManifestChange.MOVED_IN], True, 0),
        ([ManifestChange.VANISHED, ManifestChange.WRITTEN, ManifestChange.CLOSED], True, SETTLE),
    ],
)
def test_the_last_change_decides(changes: list[ManifestChange], known: bool, delay: float) -> None:
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
    pending.note("gone", ManifestChange.VANISHED, known=True, now=0.0)
    pending.note("new", ManifestChange.MOVED_IN, known=False, now=0.0)
    pending.note("open", ManifestChange.WRITTEN, known=True, now=0.0)
    assert pending.take(0.1).gone == frozenset()
    assert pending.busy() == {"gone", "open"}
    assert pending.take(VANISHED).gone == {"gone"}
    assert pending.busy() == {"open"}


def test_a_file_that_exists_again_has_not_vanished() -> None:
    pending = PendingFiles()
    pending.note("a", ManifestChange.VANISHED, known=True, now=0.0)
    pending.note("a", ManifestChange.MOVED_IN, known=True, now=0.2)
    assert pending.take(10.0) == DueFiles(gone=frozenset(), again=frozenset())


def test_a_file_that_was_deleted_and_written_again_is_new() -> None:
    pending = PendingFiles()
    for name, known in (("a", True), ("new", False)):
        pending.note(name, ManifestChange.DELETED, known=known, now=0.0)
        pending.note(name, ManifestChange.WRITTEN, known=known, now=0.1)
        pending.note(name, ManifestChange.CLOSED, known=known, now=0.1)
    pending.note("gone", ManifestChange.DELETED, known=True, now=0.0)
    assert pending.take(10.0) == DueFiles(gone=frozenset({"gone"}), again=frozenset({"a"}))


def test_file_written_repeatedly_is_read_after_the_maximum_wait() -> None:
    pending = PendingFiles()
    for second in range(30):
        pending.note("log", ManifestChange.WRITTEN, known=True, now=float(second))
    assert pending.next_due() == PATIENCE
