"""Mounting on the real kernel; every test unmounts what it mounted."""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound, PykubeletError, Transient
from pykubelet.base.units import Bytes
from pykubelet.linux import libc
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import Mount, at_or_below, is_mount_point, mounts_below
from pykubelet.linux.filesystems.mountinfo import mounts as table

pytestmark = pytest.mark.root


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    mounts.unmount_all_under(str(tmp_path), lazy=True)


def directory(path: Path) -> Path:
    path.mkdir()
    return path


def test_tmpfs_with_size_and_mode(place: Path) -> None:
    target = directory(place / "t")
    mounts.tmpfs(str(target), size=Bytes(1 << 20), mode=0o1777, options={"nr_inodes": "10"})
    assert is_mount_point(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o1777
    assert os.statvfs(target).f_blocks * os.statvfs(target).f_frsize == 1 << 20
    with pytest.raises(OSError, match="No space left"):
        (target / "big").write_bytes(b"x" * (2 << 20))
    mounts.unmount(str(target))
    assert not is_mount_point(target)


def test_bind_of_a_directory_or_file_shows_its_content(place: Path) -> None:
    source = directory(place / "s")
    (source / "file").write_text("hello")
    target = directory(place / "t")
    mounts.bind(str(source), str(target))
    assert (target / "file").read_text() == "hello"
    (place / "f").touch()
    mounts.bind(str(source / "file"), str(place / "f"))
    assert is_mount_point(place / "f")
    assert (place / "f").read_text() == "hello"


def test_bind_mount_from_a_descriptor_survives_a_rename(place: Path) -> None:
    source = directory(place / "s")
    (source / "file").write_text("hello")
    pinned = os.open(source, os.O_PATH | os.O_CLOEXEC)
    try:
        source.rename(place / "elsewhere")
        target = directory(place / "t")
        mounts.bind(f"/proc/self/fd/{pinned}", str(target))
        assert (target / "file").read_text() == "hello"
    finally:
        os.close(pinned)


def test_read_only_covers_what_is_mounted_below(place: Path) -> None:
    source = directory(place / "s")
    inner = directory(source / "inner")
    mounts.tmpfs(str(inner))
    target = directory(place / "t")
    mounts.bind(str(source), str(target), recursive=True, read_only=True)
    for path in (target / "x", target / "inner" / "x"):
        with pytest.raises(OSError, match="Read-only file system"):
            path.touch()
    (source / "x").touch()
    (inner / "x").touch()


def test_read_only_without_mount_setattr(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def old_kernel(number: int, *args: int | bytes | None) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(libc, "syscall", old_kernel)
    test_read_only_covers_what_is_mounted_below(place)


def test_a_plain_read_only_bind_keeps_other_flags(place: Path) -> None:
    source = directory(place / "s")
    mounts.mount("tmpfs", str(source), "tmpfs", mounts.MountFlag.NOSUID | mounts.MountFlag.NODEV)
    target = directory(place / "t")
    mounts.bind(str(source), str(target), recursive=False, read_only=True)
    (entry,) = at_or_below(table(), str(target))
    assert {"ro", "nosuid", "nodev"} <= entry.options


def test_slave_mount_receives_mounts_until_it_is_private(place: Path) -> None:
    source = directory(place / "s")
    mounts.tmpfs(str(source))
    mounts.set_propagation(str(source), mounts.MountFlag.SHARED)
    (entry,) = at_or_below(table(), str(source))
    assert entry.tags[0].startswith("shared:")
    target = directory(place / "t")
    mounts.bind(str(source), str(target))
    mounts.set_propagation(str(target), mounts.MountFlag.SLAVE, recursive=True)
    mounts.tmpfs(str(directory(source / "later")))
    assert is_mount_point(target / "later"), "a mount travels from master to slave"
    mounts.set_propagation(str(target), mounts.MountFlag.PRIVATE, recursive=True)
    mounts.tmpfs(str(directory(source / "unseen")))
    assert not is_mount_point(target / "unseen")


def test_a_directory_is_made_a_shared_mount_once(place: Path) -> None:
    source = directory(place / "s")
    mounts.tmpfs(str(source))
    mounts.set_propagation(str(source), mounts.MountFlag.PRIVATE)
    shared = directory(source / "root")
    assert mounts.make_shared(str(shared))
    assert not mounts.make_shared(str(shared)), "it is one already"
    (entry,) = at_or_below(table(), str(shared))
    assert entry.tags[0].startswith("shared:")
    closed = directory(source / "other")
    mounts.tmpfs(str(directory(closed / "below")))
    with pytest.raises(Transient, match="mounts below it"):
        mounts.make_shared(str(closed))


def test_unmount_all_takes_stacked_and_nested_mounts(place: Path) -> None:
    target = directory(place / "t with space")
    for _ in range(3):
        mounts.tmpfs(str(target))
    mounts.tmpfs(str(directory(target / "inner")))
    assert mounts.unmount_all_under(str(target)) == 4
    assert mounts.unmount_all_under(str(target)) == 0


def test_unmount_all_takes_mounts_that_a_newer_one_hides(place: Path) -> None:
    target = directory(place / "t")
    mounts.tmpfs(str(directory(target / "hidden")))
    mounts.tmpfs(str(target))
    assert mounts.unmount_all_under(str(target)) == 2
    assert list(at_or_below(table(), str(target))) == []


def test_unmount_all_reads_the_table_once_if_nothing_is_hidden(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def look(path: str) -> list[Mount]:
        looks.append(path)
        return mounts_below(path)

    monkeypatch.setattr(mounts, "mounts_below", look)
    target = directory(place / "t")
    mounts.tmpfs(str(target))
    assert mounts.unmount_all_under(str(target), lazy=True) == 1
    assert looks == [str(target)]
    assert not is_mount_point(target)


def test_busy_mounts_are_transient_or_detached(place: Path) -> None:
    target = directory(place / "t")
    mounts.tmpfs(str(target))
    holder = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with pytest.raises(Transient, match="busy"):
            mounts.unmount(str(target))
        with pytest.raises(Transient):
            mounts.unmount_all_under(str(target))
        mounts.unmount(str(target), lazy=True)
        assert not is_mount_point(target)
    finally:
        os.close(holder)


def test_failed_mount_calls_raise_errors_of_their_kind(place: Path) -> None:
    with pytest.raises(NotFound, match="nothing is mounted"):
        mounts.unmount(str(directory(place / "plain")))
    with pytest.raises(NotFound):
        mounts.unmount(str(place / "missing"))
    with pytest.raises(NotFound, match="cannot mount"):
        mounts.bind(str(place / "missing"), str(place / "plain"))
    with pytest.raises(PykubeletError):
        mounts.mount("none", str(place / "plain"), "nosuchfs")
    assert list(at_or_below(table(), str(place / "plain"))) == []


def test_a_link_is_not_followed_on_unmount(place: Path) -> None:
    target = directory(place / "t")
    mounts.tmpfs(str(target))
    (place / "link").symlink_to(target)
    with pytest.raises(NotFound):
        mounts.unmount(str(place / "link"))
    assert is_mount_point(target)
