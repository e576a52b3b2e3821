"""Nothing but the directory itself is deleted."""

import errno
import os
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict
from pykubelet.linux import procfs
from pykubelet.linux.filesystems import mounts, removal
from pykubelet.linux.filesystems.removal import remove_tree


@pytest.fixture(params=["openat2", "mount ids"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel that has openat2 and one before Linux 5.6, which has mount ids in /proc."""
    if request.param == "mount ids":
        monkeypatch.setattr(removal, "_SYS_OPENAT2", 100_000)
    return str(request.param)


def test_a_tree_of_all_kinds_of_files_goes(kernel: str, tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/empty").mkdir()
    (top / "a/b/file").write_text("x")
    (top / "a/b/c/file").write_text("x")
    (top / "link").symlink_to("a")
    os.mkfifo(top / "a/fifo")
    (top / "locked").mkdir(mode=0o000)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_fine(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")
    remove_tree(tmp_path / "none/of/these")


def test_links_are_removed_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    top = tmp_path / "top"
    (top / "d").mkdir(parents=True)
    (top / "link").symlink_to(precious)
    (top / "d/link").symlink_to(precious / "data")
    remove_tree(top)
    assert (precious / "data").read_text() == "x"


def test_a_link_in_the_place_of_the_directory_is_refused(kernel: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    (tmp_path / "top").symlink_to(precious)
    with pytest.raises(OSError):
        remove_tree(tmp_path / "top")
    assert (precious / "data").exists()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_tree_deeper_than_recursion_and_descriptors_allow(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    before = open_descriptors()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 100, dir_fd=fd)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    remove_tree(top)
    assert not top.exists()
    assert open_descriptors() <= before


def test_a_directory_of_many_files(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    for i in range(3000):
        (top / "sub" / str(i)).touch()
        if i % 10 == 0:
            (top / "sub" / f"d{i}/x").mkdir(parents=True)
    remove_tree(top)
    assert not top.exists()


@pytest.mark.root
def test_directory_on_another_mount_is_left_alone(kernel: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    top = tmp_path / "top"
    (top / "sub/mounted").mkdir(parents=True)
    (top / "sub/other/below").mkdir(parents=True)
    precious.mkdir()
    (precious / "data").write_text("x")
    before = open_descriptors()
    mounts.bind(str(precious), str(top / "sub/mounted"))
    try:
        with pytest.raises(Conflict, match="'mounted' is a mount point"):
            remove_tree(top)
        assert (precious / "data").read_text() == "x"
        assert not list(top.rglob("other"))
        assert open_descriptors() <= before
    finally:
        for path in top.rglob("mounted"):
            mounts.unmount(str(path))
    remove_tree(top)
    assert not top.exists()


@pytest.mark.root
def test_directory_that_is_a_mount_point_is_left_alone(kernel: str, tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (top / "data").write_text("x")
    mounts.bind(str(top), str(top))
    try:
        with pytest.raises(Conflict, match="'top' is a mount point"):
            remove_tree(top)
        assert (top / "data").read_text() == "x"
    finally:
        mounts.unmount(str(top))


def test_directory_with_another_mount_id_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "top"
    (top / "sub/mounted").mkdir(parents=True)
    (top / "sub/mounted/data").write_text("x")
    inode = (top / "sub/mounted").stat().st_ino
    real = procfs.mount_id
    monkeypatch.setattr(removal, "_SYS_OPENAT2", 100_000)
    monkeypatch.setattr(procfs, "mount_id", lambda fd: -1 if os.fstat(fd).st_ino == inode else real(fd))
    with pytest.raises(Conflict, match="is a mount point"):
        remove_tree(top)
    assert [path.read_text() for path in tmp_path.rglob("data")] == ["x"]


def test_name_of_a_directory_that_stays_does_not_keep_another_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    (top / "a").mkdir(parents=True)
    (top / "a/stuck").touch()
    for number in range(20):
        (top / f"b{number}/a/below").mkdir(parents=True)
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int) -> None:
        if name == "stuck":
            raise PermissionError(errno.EPERM, "Operation not permitted", name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError):
        remove_tree(top)
    assert [path.relative_to(top).as_posix() for path in top.rglob("*")] == ["a", "a/stuck"]


def test_removal_that_is_interrupted_is_finished_by_the_next(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for number in range(300):
        (top / f"{number}/below").mkdir(parents=True)
        (top / f"{number}/below/file").touch()
    before, parent = open_descriptors(), os.open(tmp_path, os.O_RDONLY)
    for _ in range(3):
        steps = removal.removal_steps(parent, "top")
        next(steps)
        steps.close()
    assert top.exists()
    assert sum(1 for _ in removal.removal_steps(parent, "top")) > 3, "it can be interrupted only rarely"
    os.close(parent)
    assert not top.exists() and open_descriptors() <= before


def test_entries_that_the_kernel_refuses_to_remove_keep_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "top"
    for number in range(20):
        (top / f"{number}/below").mkdir(parents=True)
        (top / f"{number}/below/file").touch()
        (top / f"{number}/stuck").touch()
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int) -> None:
        if name == "stuck":
            raise PermissionError(errno.EPERM, "Operation not permitted", name)
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(PermissionError, match="'stuck': Operation not permitted"):
        remove_tree(top)
    assert {path.name for path in top.rglob("*") if path.is_file()} == {"stuck"}
    monkeypatch.undo()
    remove_tree(top)
    assert not top.exists()


def test_failing_disk_ends_the_removal_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top").mkdir()
    for number in range(20):
        (tmp_path / "top" / str(number)).touch()
    tried = []

    def fail(name: str, *, dir_fd: int) -> None:
        tried.append(name)
        raise OSError(errno.EIO, "Input/output error", name)

    monkeypatch.setattr(os, "unlink", fail)
    with pytest.raises(OSError, match="Input/output error"):
        remove_tree(tmp_path / "top")
    assert len(tried) == 1
