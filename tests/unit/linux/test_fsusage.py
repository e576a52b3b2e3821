"""Disk usage without forking, compared with du."""

import os
import subprocess
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.linux import mounts
from pykubelet.linux.fsusage import filesystem, tree_usage


def du(path: Path) -> int:
    return int(subprocess.check_output(["du", "-sxB1", str(path)]).split()[0])


def test_filesystem(tmp_path: Path) -> None:
    usage = filesystem(str(tmp_path))
    assert 0 < usage.available <= usage.capacity
    assert usage.used <= usage.capacity
    assert usage.inodes_used == usage.inodes - usage.inodes_free
    with pytest.raises(NotFound):
        filesystem(str(tmp_path / "missing"))


def test_tree_agrees_with_du(tmp_path: Path) -> None:
    for number in range(20):
        folder = tmp_path / f"d{number % 3}" / f"e{number}"
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(b"x" * 5000 * number)
    os.link(tmp_path / "d1/e1/file", tmp_path / "hardlink")
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 30)
    usage = tree_usage(str(tmp_path))
    assert usage.bytes == du(tmp_path)
    # 1 root, 3 + 20 folders, 20 files, a link, a sparse file; the hard link is no inode of its own
    assert usage.inodes == 1 + 23 + 20 + 2
    assert usage.complete


def test_a_single_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 5000)
    assert tree_usage(str(tmp_path / "file")).bytes == du(tmp_path / "file")
    with pytest.raises(NotFound):
        tree_usage(str(tmp_path / "missing"))


@pytest.mark.root
def test_other_file_systems_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    mounts.tmpfs(str(tmp_path / "other"))
    try:
        (tmp_path / "other/file").write_bytes(b"x" * 100_000)
        usage = tree_usage(str(tmp_path))
    finally:
        mounts.unmount(str(tmp_path / "other"))
    assert usage.bytes < 100_000
    assert usage.inodes == 1


def test_absurd_depth_is_bounded_and_told(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    # Two folders on each level, so that no level is done before the one below it.
    for _ in range(400):
        os.mkdir("a", dir_fd=here)
        os.mkdir("b", dir_fd=here)
        below = os.open("b", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    before = len(list(Path("/proc/self/fd").iterdir()))
    usage = tree_usage(str(tmp_path))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert usage.inodes > 100
    assert not usage.complete


def test_stop(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    assert tree_usage(str(tmp_path), stop=lambda: True).complete is False
