"""Changed files are read soon after they are complete, and after a maximum wait at the latest."""

import math

from pykubelet.kubelet.reload.plan.settling import PATIENCE, SETTLE, UNCLOSED, VANISHED, FileChange, SettlingChanges


def test_nothing_is_due_without_a_change() -> None:
    assert SettlingChanges().due() == math.inf


def test_complete_file_is_due_soon_and_an_open_one_later() -> None:
    settling = SettlingChanges()
    settling.note("a", FileChange.COMPLETE, 10.0)
    assert settling.due() == 10.0 + SETTLE
    settling.note("b", FileChange.WRITTEN, 10.0)
    assert settling.due() == 10.0 + UNCLOSED
    settling.note("b", FileChange.COMPLETE, 11.0)
    assert settling.due() == 11.0 + SETTLE


def test_vanished_file_may_reappear_before_it_counts() -> None:
    settling = SettlingChanges()
    settling.note("a", FileChange.VANISHED, 0.0)
    assert settling.due() == VANISHED
    settling.note("a", FileChange.COMPLETE, 0.25)
    assert settling.due() == 0.25 + SETTLE


def test_files_that_never_settle_are_read_at_last() -> None:
    settling = SettlingChanges()
    for second in range(60):
        settling.note("a", FileChange.WRITTEN, float(second))
    assert settling.due() == PATIENCE
    settling.clear()
    assert settling.due() == math.inf
