"""Reads are repeated after errors that may pass, and only for a bounded time."""

import errno
import os
from collections.abc import Callable

import pytest

from pykubelet.base.files.retried_reads import RetriedReads
from pykubelet.base.units import Seconds


class _Disk:
    """A clock that only pauses and reads advance, and a file on a disk that fails for some reads."""

    def __init__(self, *errors: int, each: Seconds = 0.0) -> None:
        self.time = 100.0
        self.reads = 0
        self.pauses: list[Seconds] = []
        self._errors = list(errors)
        self._each = each

    def monotonic(self) -> Seconds:
        return self.time

    def pause(self, seconds: Seconds) -> None:
        self.pauses.append(seconds)
        self.time += seconds

    def read(self) -> bytes:
        self.reads += 1
        self.time += self._each
        if self._errors:
            number = self._errors.pop(0)
            raise OSError(number, os.strerror(number))
        return b"content"

    def fail(self) -> bytes:
        self.reads += 1
        self.time += self._each
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def miss(self) -> bytes:
        self.time += self._each
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def retried(self) -> Callable[[Callable[[], bytes]], bytes]:
        return RetriedReads(self.monotonic, self.pause).read


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_file_that_cannot_be_read_for_a_moment_is_read_again(number: int) -> None:
    disk = _Disk(number, number)
    assert disk.retried()(disk.read) == b"content"
    assert (disk.reads, disk.pauses) == (3, [0.05, 0.25])


def test_file_that_cannot_be_read_three_times_is_not_read_again() -> None:
    disk = _Disk(errno.EMFILE, errno.EIO, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        disk.retried()(disk.read)
    assert disk.reads == 3


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EFBIG, errno.EINVAL, errno.EACCES, errno.ELOOP])
def test_error_that_does_not_pass_is_raised_at_once(number: int) -> None:
    disk = _Disk(number)
    with pytest.raises(OSError, match=os.strerror(number)):
        disk.retried()(disk.read)
    assert (disk.reads, disk.pauses) == (1, [])


@pytest.mark.parametrize(("each", "files"), [(0.0, 10_000), (0.1, 300), (3.0, 10)])
def test_many_files_that_cannot_be_read_are_given_up_within_a_bounded_time(each: Seconds, files: int) -> None:
    disk = _Disk(each=each)
    retried = disk.retried()
    for _ in range(files):
        with pytest.raises(OSError, match="Input/output error"):
            retried(disk.fail)
    assert (files < disk.reads) == (each < 1)
    assert disk.time - 100 - files * each <= 2.0


def test_attempts_that_are_not_made_are_not_remembered() -> None:
    disk = _Disk(each=1e-6)
    reads = RetriedReads(disk.monotonic, disk.pause)
    for _ in range(1000):
        with pytest.raises(OSError, match="Input/output error"):
            reads.read(disk.fail)
        with pytest.raises(FileNotFoundError):
            reads.read(disk.miss)
    assert len(reads._spent) < 20


def test_files_are_read_again_after_a_minute() -> None:
    disk = _Disk()
    retried = disk.retried()
    for _ in range(100):
        with pytest.raises(OSError, match="Input/output error"):
            retried(disk.fail)
    before = disk.reads
    with pytest.raises(OSError, match="Input/output error"):
        retried(disk.fail)
    assert disk.reads == before + 1
    disk.time += 61
    with pytest.raises(OSError, match="Input/output error"):
        retried(disk.fail)
    assert disk.reads == before + 4
