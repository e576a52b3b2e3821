"""Disk usage without forking, compared with du."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.linux.filesystems import mounts, treewalk
from pykubelet.linux.filesystems.fsusage import filesystem, tree_usage
from pykubelet.linux.filesystems.removal import remove_tree


def du(path: Path) -> int:
    return int(subprocess.check_output(["du", "-sxB1", str(path)]).split()[0])


def test_file_system_usage_is_within_its_capacity(tmp_path: Path) -> None:
    usage = filesystem(str(tmp_path))
    assert 0 < usage.available <= usage.capacity
    assert usage.used <= usage.capacity
    assert usage.inodes_used == usage.inodes - usage.inodes_free
    with pytest.raises(NotFound):
        filesystem(str(tmp_path / "missing"))


def test_tree_agrees_with_du(tmp_path: Path) -> None:
    for number in range(20):
        directory = tmp_path / f"d{number % 3}" / f"e{number}"
        directory.mkdir(parents=True)
        (directory / "file").write_bytes(b"x" * 5000 * number)
    os.link(tmp_path / "d1/e1/file", tmp_path / "hardlink")
    (tmp_path / "link").symlink_to("/usr")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 30)
    usage = tree_usage(str(tmp_path))
    assert usage.bytes == du(tmp_path)
    # 1 root, 3 + 20 directories, 20 files, a link, a sparse file; the hard link is no inode of its own
    assert usage.inodes == 1 + 23 + 20 + 2
    assert usage.complete


def test_usage_of_a_single_file_is_that_of_du(tmp_path: Path) -> None:
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


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A directory that may be nested deeper than other programs can remove."""
    path = tmp_path / "tree"
    path.mkdir()
    yield path
    remove_tree(path)


def _nest(top: Path, depth: int, *, siblings: tuple[str, ...] = ()) -> None:
    """A chain of directories, each with others beside the one that leads down."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        for name in (*siblings, "b"):
            os.mkdir(name, dir_fd=here)
        below = os.open("b", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, b"x" * 1_000_000)
    os.close(file)
    os.close(here)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("siblings", [(), ("a",), ("a", "c")])
def test_tree_of_any_depth_is_counted_with_few_descriptors(tree: Path, siblings: tuple[str, ...]) -> None:
    _nest(tree, 400, siblings=siblings)
    before, most = _descriptors(), 0

    def look() -> bool:
        nonlocal most
        most = max(most, _descriptors())
        return False

    usage = tree_usage(str(tree), look)
    assert usage.bytes == du(tree)
    assert usage.inodes == 1 + 400 * (1 + len(siblings)) + 1
    assert usage.complete
    assert _descriptors() <= before
    assert most - before < 100


def test_more_subdirectories_than_names_are_kept_are_all_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treewalk, "_MOST_NAMES", 0)
    monkeypatch.setattr(treewalk, "_FEWEST_NAMES", 5)
    monkeypatch.setattr(treewalk, "_MOST_LEVELS", 2)
    for one in range(12):
        for two in range(12):
            (tmp_path / f"d{one}" / f"e{two}" / "f" / "g").mkdir(parents=True)
    usage = tree_usage(str(tmp_path))
    assert usage.inodes == 1 + 12 + 12 * 12 * 3
    assert usage.bytes == du(tmp_path)
    assert usage.complete


def test_hard_links_beyond_those_remembered_count_by_their_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treewalk, "_MOST_LINKED", 1)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x" * 50_000)
        for number in range(3):
            os.link(tmp_path / name, tmp_path / f"{name}{number}")
    assert tree_usage(str(tmp_path)).bytes == du(tmp_path)
    assert tree_usage(str(tmp_path)).inodes == 4


def test_directory_moved_during_the_count_never_leads_out_of_the_tree(tree: Path, tmp_path: Path) -> None:
    """The way back up is ``..``, which leads elsewhere once a directory has been moved."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(100):
        (outside / f"x{number}").mkdir()
    _nest(tree, 300, siblings=("a", "c"))
    moved = tree / Path(*["b"] * 150)
    steps = 0

    def move() -> bool:
        nonlocal steps
        steps += 1
        if steps == 500:  # when it is below, and the levels above are given up
            moved.rename(outside / "moved")
        return False

    usage = tree_usage(str(tree), move)
    assert (outside / "moved").exists()
    assert not usage.complete
    assert usage.inodes <= 1 + 300 * 3 + 1


@pytest.mark.parametrize("target", ["b/moved", "a/z-renamed"])
@pytest.mark.parametrize("kept", [1 << 14, 40])
def test_directory_moved_during_the_count_hides_nothing_beside_it(
    tree: Path, target: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treewalk, "_MOST_ENTERED", kept)
    for name in ("a/m", "a/n", "b", "c"):
        (tree / name).mkdir(parents=True)
    _nest(tree / "a/m", 150)
    for hidden in ("a/n", "c"):
        (tree / hidden / "data").write_bytes(b"x" * 10_000_000)
    steps = 0

    def move() -> bool:
        nonlocal steps
        steps += 1
        if steps == 145:  # when it is below, and the levels above are given up
            (tree / "a/m").rename(tree / target)
        return False

    assert tree_usage(str(tree), move).bytes >= 20_000_000
    assert (tree / target).exists()


def test_stopped_walk_of_a_tree_is_incomplete(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
    assert tree_usage(str(tmp_path), stop=lambda: True).complete is False
