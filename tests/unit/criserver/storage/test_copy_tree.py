"""The copy of a directory of an image, which is hostile: bounded memory and few descriptors."""

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.criserver.storage import copy_tree as module
from pykubelet.criserver.storage.copy_tree import copy_tree

pytestmark = pytest.mark.root


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    return source, target


def copied(trees: tuple[Path, Path]) -> int:
    """Copy, check that no descriptor stays open, and return the most bytes of memory that the copy used."""
    with opened(trees[0]) as source, opened(trees[1]) as target:
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
        tracemalloc.start()
        try:
            copy_tree(source, target)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    return peak


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def test_first_names_of_hard_links_have_bounded_memory(
    trees: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file has a second name elsewhere, so that its first name could be needed until the end."""
    monkeypatch.setattr(module, "_MOST_LINKED", 1 << 20)
    others = tmp_path / "others"
    others.mkdir()
    for number in range(2700):
        file = trees[0] / f"file-{number}"
        file.touch()
        (others / str(number)).hardlink_to(file)
    tracemalloc.start()
    try:
        with (
            opened(trees[0]) as source,
            opened(trees[1]) as target,
            pytest.raises(Invalid, match=r"hard links whose first names need more than 1024 KiB; mount a volume"),
        ):
            copy_tree(source, target)
        assert tracemalloc.get_traced_memory()[1] < 1.3 * (1 << 20)
    finally:
        tracemalloc.stop()


def test_long_path_of_a_hard_link_counts_with_its_length(
    trees: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_LINKED", 100_000)
    deep = trees[0] / "/".join(["d" * 200] * 18)
    deep.mkdir(parents=True)
    for number in range(50):
        (deep / str(number)).touch()
        (tmp_path / str(number)).hardlink_to(deep / str(number))
    with pytest.raises(Invalid, match="hard links"):
        copied(trees)


def test_file_whose_names_were_all_copied_is_forgotten(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_LINKED", 5 * 500)
    for number in range(100):
        directory = trees[0] / str(number)
        directory.mkdir()
        (directory / "a").write_text(str(number))
        for name in ("b", "c"):
            (directory / name).hardlink_to(directory / "a")
    copied(trees)
    for number in range(100):
        files = [(trees[1] / str(number) / name) for name in "abc"]
        assert {each.stat().st_ino for each in files} == {files[0].stat().st_ino}
        assert files[0].stat().st_nlink == 3 and files[0].read_text() == str(number)


def test_directory_of_many_directories_needs_no_memory_for_their_names(trees: tuple[Path, Path]) -> None:
    for number in range(2000):
        (trees[0] / f"{number:0200}").mkdir()
    assert copied(trees) < 100_000
    assert sum(1 for _ in trees[1].iterdir()) == 2000


def test_names_of_deep_directories_are_limited(trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OPEN_LEVELS", 2)
    monkeypatch.setattr(module, "_MOST_NAMES", 10)
    for path in ("a/b/c/d/e", "a/b/c/d/f/g", "a/b/h", "a/i", "k/l/m"):
        (trees[0] / path).mkdir(parents=True)
        (trees[0] / path / "file").write_text(path)
    copied(trees)
    paths = [sorted(each.relative_to(tree) for each in tree.rglob("*")) for tree in trees]
    assert paths[0] == paths[1]
    for number in range(11):
        (trees[0] / f"a/i/{number}").mkdir()
    other = trees[1].with_name("other")
    other.mkdir()
    with pytest.raises(Invalid, match="more than 10 directories 2 levels deep; mount a volume of the pod there"):
        copied((trees[0], other))
