"""Log files on disk: finding, rejecting, reading from the end, rotation."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.kubelet.serve.logs.log_files import LogDirectory, LogFile
from tests.unit.kubelet.report.pods import REF
from tests.unit.kubelet.serve.logs.records import raw


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "pods" / "ns_web_uid-1" / "app"
    path.mkdir(parents=True)
    return path


def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(root=tmp_path / "pods", ref=REF, container="app")


def texts(file: LogFile) -> list[str]:
    """Return the texts of all records from the position on."""
    found = []
    while records := file.read():
        found += [record.content.decode() for record in records]
    return found


def test_attempts_are_numbers_of_log_files_newest_first(tmp_path: Path, directory: Path) -> None:
    for name in ("0.log", "2.log", "10.log", "2.log.20260101-000000", "x.log", "-1.log", "0.log.gz"):
        (directory / name).touch()
    assert logs(tmp_path).attempts() == [10, 2, 0]


def test_newest_attempts_of_many_are_returned(tmp_path: Path, directory: Path) -> None:
    """As a pod can leave them that has a volume among the logs."""
    for number in range(5000):
        (directory / f"{number}.log").touch()
        (directory / f"{number}.other").touch()
    assert logs(tmp_path).attempts() == list(range(4999, 4999 - 4096, -1))


def test_missing_directory_has_no_attempts(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    assert logs(tmp_path).attempts() == []
    with pytest.raises(NotFound):
        logs(tmp_path).open(0)


def test_read_returns_complete_records_and_skips_rubbish(tmp_path: Path, directory: Path) -> None:
    (directory / "0.log").write_bytes(raw("a") + b"rubbish\n" + raw("b\rc") + raw("unfinished")[:-1])
    with logs(tmp_path).open(0) as file:
        assert texts(file) == ["a", "b\rc"]
        with (directory / "0.log").open("ab") as end:
            end.write(b"!\n")
        assert texts(file) == ["unfinished!"]
        assert file.read() == []


@pytest.mark.parametrize("tail", [None, 2])
def test_lines_appended_after_the_fixed_end_are_not_read(tmp_path: Path, directory: Path, tail: int | None) -> None:
    (directory / "0.log").write_bytes(b"".join(map(raw, "abc")))
    with logs(tmp_path).open(0) as file, (directory / "0.log").open("ab") as end:
        file.end_here()
        end.write(raw("d"))
        end.flush()
        if tail is not None:
            file.seek_tail(tail)
        assert texts(file) == list("abc" if tail is None else "bc")


@pytest.mark.parametrize("kind", ["secret", "other pod", "inside", "fifo", "directory", "device"])
def test_non_regular_file_is_rejected(tmp_path: Path, directory: Path, kind: str) -> None:
    target = directory / "0.log"
    other = tmp_path / "pods" / "ns_db_uid-2" / "app"
    other.mkdir(parents=True)
    (other / "0.log").write_bytes(raw("of another pod"))
    match kind:
        case "secret":
            target.symlink_to("/etc/shadow")
        case "other pod":
            target.symlink_to("../../ns_db_uid-2/app/0.log")
        case "inside":
            (directory / "real.log").write_bytes(raw("a"))
            target.symlink_to("real.log")
        case "fifo":
            os.mkfifo(target)
        case "directory":
            target.mkdir()
        case "device":
            target.symlink_to("/dev/zero")
    with pytest.raises(Invalid):
        logs(tmp_path).open(0)


def test_symlink_in_the_path_is_rejected(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "app"
    real.mkdir(parents=True)
    (real / "0.log").write_bytes(raw("a"))
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "ns_web_uid-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Invalid):
        logs(tmp_path).open(0)
    with pytest.raises(Invalid):
        logs(tmp_path).attempts()


@pytest.mark.parametrize("name", ["../../../etc", "a/../../b", "..", "app/.."])
def test_a_container_cannot_be_named_out_of_the_directory(tmp_path: Path, directory: Path, name: str) -> None:
    with pytest.raises((Invalid, NotFound)):
        LogDirectory(root=tmp_path / "pods", ref=REF, container=name).open(0)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (0, []),
        (1, ["e"]),
        (2, ["c", "d", "e"]),
        (3, ["b", "c", "d", "e"]),
        (4, ["a", "b", "c", "d", "e"]),
        (100, ["a", "b", "c", "d", "e"]),
    ],
)
def test_the_tail_counts_whole_lines(tmp_path: Path, directory: Path, lines: int, expected: list[str]) -> None:
    data = raw("a") + raw("b") + raw("c", tag="P") + raw("d") + raw("e")
    (directory / "0.log").write_bytes(data)
    with logs(tmp_path).open(0) as file:
        file.seek_tail(lines)
        assert texts(file) == expected


def test_the_tail_of_an_empty_or_unfinished_file(tmp_path: Path, directory: Path) -> None:
    (directory / "0.log").touch()
    with logs(tmp_path).open(0) as file:
        file.seek_tail(5)
        assert texts(file) == []
    (directory / "0.log").write_bytes(raw("a") + raw("b")[:-1])
    with logs(tmp_path).open(0) as file:
        file.seek_tail(0)
        with (directory / "0.log").open("ab") as end:
            end.write(b"\n")
        assert texts(file) == ["b"]


@given(
    sizes=st.lists(st.one_of(st.integers(0, 50), st.sampled_from([70_000, 140_000])), max_size=20),
    lines=st.integers(0, 25),
)
def test_tail_equals_the_end_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], lines: int
) -> None:
    base = tmp_path_factory.mktemp("tail")
    path = base / "pods" / "ns_web_uid-1" / "app"
    path.mkdir(parents=True)
    content = [f"{i}:{'x' * size}" for i, size in enumerate(sizes)]
    (path / "0.log").write_bytes(b"".join(raw(text) for text in content))
    with logs(base).open(0) as file:
        file.seek_tail(lines)
        assert texts(file) == (content[-lines:] if lines else [])


def test_a_hostile_line_without_end_is_skipped(tmp_path: Path, directory: Path) -> None:
    (directory / "0.log").write_bytes(raw("a") + b"x" * 5_000_000 + b"\n" + raw("b"))
    with logs(tmp_path).open(0) as file:
        assert texts(file) == ["a", "b"]
        file.seek_tail(1)
        assert texts(file) == ["b"]


def test_truncated_file_is_read_from_the_start(tmp_path: Path, directory: Path) -> None:
    path = directory / "0.log"
    path.write_bytes(raw("a") + raw("long" * 50))
    with logs(tmp_path).open(0) as file:
        assert len(texts(file)) == 2
        path.write_bytes(raw("new"))
        assert texts(file) == ["new"]


def test_rotation_is_seen(tmp_path: Path, directory: Path) -> None:
    path = directory / "0.log"
    path.write_bytes(raw("a"))
    found = logs(tmp_path)
    with found.open(0) as file:
        assert not found.is_rotated(0, file)
        path.rename(directory / "0.log.1")
        assert not found.is_rotated(0, file), "its successor is not there yet"
        path.write_bytes(raw("b"))
        assert found.is_rotated(0, file)
        path.unlink()
        path.symlink_to("/etc/passwd")
        assert not found.is_rotated(0, file)


def test_closing_a_log_twice_is_no_error(tmp_path: Path, directory: Path) -> None:
    (directory / "0.log").touch()
    file = logs(tmp_path).open(0)
    file.close()
    file.close()
