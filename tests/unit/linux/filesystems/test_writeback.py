"""Early write-back of files; what reaches the disk when is the kernel's choice, so the calls are recorded."""

import os
from pathlib import Path

import pytest

from pykubelet.base.units import MIB
from pykubelet.linux import libc
from pykubelet.linux.filesystems.writeback import WriteBack


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The offsets and lengths of the calls, which are made as well."""
    ranges: list[tuple[int, int]] = []
    call = libc.call

    def recorded(function: str, *args: int | bytes | None) -> int:
        assert function == "sync_file_range"
        _, offset, length, flags = args
        assert isinstance(offset, int) and isinstance(length, int)
        assert flags == 2, "it must not wait for the disk"
        ranges.append((offset, length))
        return call(function, *args)

    monkeypatch.setattr(libc, "call", recorded)
    return ranges


def _write(path: Path, *, start: int, pieces: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.lseek(fd, start, os.SEEK_SET)
        back = WriteBack(fd)
        for _ in range(pieces):
            back.wrote(os.write(fd, bytes(MIB)))
    finally:
        os.close(fd)


def test_written_ranges_are_given_to_the_disk_once_from_the_start_on(
    tmp_path: Path, asked: list[tuple[int, int]]
) -> None:
    _write(tmp_path / "file", start=3 * MIB, pieces=21)
    assert asked == [(3 * MIB, 8 * MIB), (11 * MIB, 8 * MIB)]


def test_small_files_are_left_to_the_kernel(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    _write(tmp_path / "file", start=0, pieces=7)
    assert asked == []


def test_a_file_without_write_back_is_written_all_the_same(asked: list[tuple[int, int]]) -> None:
    reading, writing = os.pipe()
    try:
        WriteBack(writing).wrote(8 * MIB)
    finally:
        os.close(reading)
        os.close(writing)
    assert asked == [], "a pipe has no position"
