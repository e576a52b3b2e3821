"""Entries of directories that decide where a path leads."""

from pathlib import Path

import pytest

from pykubelet.base.files.links import entries_to


def reported(path: Path, *, directory: bool = False) -> list[tuple[str, bool]]:
    """The names of the entries, and whether they decide."""
    return [(entry.path.name, entry.decides) for entry in entries_to(path, directory=directory)]


def test_links_to_a_file_are_followed_from_each_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "second").symlink_to("file")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    assert reported(tmp_path / "first") == [("first", True), ("second", True), ("file", False)]


def test_links_to_directories_on_the_way_are_named_by_their_real_directory(tmp_path: Path) -> None:
    (tmp_path / "real" / "d").mkdir(parents=True)
    (tmp_path / "real" / "d" / "file").touch()
    (tmp_path / "real" / "l").symlink_to("../real/./d")
    (tmp_path / "current").symlink_to("real")
    found = entries_to(tmp_path / "current" / "l" / ".." / "l" / "file")
    assert [entry.path.relative_to(tmp_path) for entry in found] == [
        Path("current"),
        Path("real/l"),
        Path("real/l"),
        Path("real/d/file"),
    ]
    assert [entry.is_link for entry in found] == [True, True, True, False]


def test_missing_file_is_the_only_entry_and_a_missing_directory_the_last(tmp_path: Path) -> None:
    assert reported(tmp_path / "none") == [("none", False)]
    assert reported(tmp_path / "none", directory=True) == [("none", True)]
    assert reported(tmp_path / "none" / "file") == [("none", True)]
    (tmp_path / "link").symlink_to("none/below")
    assert reported(tmp_path / "link" / "file") == [("link", True), ("none", True)]
    (tmp_path / "file").touch()
    assert reported(tmp_path / "file" / "below") == [("below", False)]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(entries_to(tmp_path / "a")) == 41


def test_file_is_found_behind_as_many_links_as_the_kernel_follows(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / str(number)).symlink_to(str(number + 1))
    (tmp_path / "40").write_text("found")
    assert (tmp_path / "0").read_text() == "found"
    assert reported(tmp_path / "0")[-1] == ("40", False)


def test_path_that_ends_in_a_directory_above_has_the_links_only(tmp_path: Path) -> None:
    (tmp_path / "up").symlink_to("..")
    assert reported(tmp_path / "up") == [("up", True)]
    assert entries_to(Path("/")) == ()


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_identity_is_that_of_the_directory_that_is_watched(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "file").touch()
    path = place / "file" if kind == "file" else place
    before = entries_to(path)
    (place / "new").touch()
    (place / "new").rename(place / "file")
    assert entries_to(path) == before, "the file alone was replaced"
    place.rename(tmp_path / "former")
    place.mkdir()
    (place / "file").touch()
    assert entries_to(path) != before
