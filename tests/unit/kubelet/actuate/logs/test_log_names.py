"""Names and order of the files of a log."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.kubelet.actuate.logs.log_types import RotatedFiles
from pykubelet.kubelet.actuate.logs.plan.log_names import current_attempt, is_lost, next_name, rotated_files, tidying

T1, T2, T3, T4 = (f"0.log.20260102-03040{n}" for n in range(1, 5))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["0.log"], RotatedFiles()),
        (["0.log", T1], RotatedFiles(compress=(T1,))),
        (["0.log", T2, f"{T1}.gz"], RotatedFiles(compress=(T2,))),
        (["0.log", T4, f"{T3}.gz", f"{T2}.gz", f"{T1}.gz"], RotatedFiles(remove=(f"{T1}.gz",), compress=(T4,))),
        (["0.log", T1, f"{T1}.gz"], RotatedFiles(remove=(T1,))),
        (["0.log", T1, f"{T1}.tmp"], RotatedFiles(remove=(f"{T1}.tmp",), compress=(T1,))),
        (["0.log", "1.log.20260102-030401", "notes.txt", "0.log.old"], RotatedFiles()),
    ],
)
def test_tidying_compresses_and_removes_rotated_logs(names: list[str], expected: RotatedFiles) -> None:
    assert tidying(names, "0.log", 5) == expected


def test_with_two_files_only_the_last_rotated_one_stays() -> None:
    assert tidying(["0.log", T1], "0.log", 2) == RotatedFiles(remove=(T1,))


@given(st.lists(st.integers(0, 59), unique=True, max_size=12), st.integers(2, 6), st.sets(st.integers(0, 59)))
def test_tidying_leaves_room_for_the_next_file(seconds: list[int], max_files: int, packed: set[int]) -> None:
    names = ["0.log", *(f"0.log.20260102-0304{s:02}{'.gz' if s in packed else ''}" for s in seconds)]
    plan = tidying(names, "0.log", max_files)
    left = [name for name in names[1:] if name not in plan.remove]
    assert len(left) + 2 <= max_files or not left
    assert "0.log" not in plan.remove
    assert left == [] or min(left) >= max(plan.remove, default="")
    assert {name for name in left if not name.endswith(".gz")} == set(plan.compress)


@pytest.mark.parametrize(
    ("names", "attempt"),
    [([], None), (["x"], None), (["0.log", "2.log", "1.log"], 2), (["1.log", "2.log.20260102-030405.gz"], 2)],
)
def test_current_attempt_is_the_last(names: list[str], attempt: int | None) -> None:
    assert current_attempt(names) == attempt


@pytest.mark.parametrize(
    ("names", "lost"),
    [(["0.log", T1], False), ([T1], True), ([f"{T1}.gz"], False), ([f"{T1}.tmp"], False), ([], False)],
)
def test_interrupted_rotation_is_detected(names: list[str], lost: bool) -> None:
    assert is_lost(names, "0.log") is lost


NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([], "0.log.20260102-030405"),
        (["0.log", T4], "0.log.20260102-030405"),
        (["0.log.20260102-030405"], "0.log.20260102-030406"),
        (["0.log.20260102-030405.gz"], "0.log.20260102-030406"),
        (["0.log.20261231-235959.gz.tmp"], "0.log.20270101-000000"),
        (["0.log.99999999-999999", "0.log.99991231-235959", "0.log.20260230-000000"], "0.log.20260102-030405"),
        (["1.log.20300101-000000", "notes.txt", "0.log.old", "00.log.20300101-000000"], "0.log.20260102-030405"),
    ],
)
def test_name_of_a_log_put_aside_is_later_than_every_other(names: list[str], expected: str) -> None:
    assert next_name(names, "0.log", NOW) == expected


def test_file_whose_stamp_is_no_time_is_the_oldest_and_goes_first() -> None:
    strange = ["0.log.99999999-999999", "0.log.99991231-235959.gz"]
    assert rotated_files([T1, *strange], "0.log")[-1] == T1
    assert set(tidying(["0.log", T1, *strange], "0.log", 3).remove) == set(strange)
