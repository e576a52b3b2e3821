"""Symbolic links on the way to a file."""

from pathlib import Path

from pykubelet.base.files.links import links_to


def test_links_to_a_file_are_followed_from_each_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "second").symlink_to("file")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    assert [path.name for path in links_to(tmp_path / "first")] == ["first", "second", "file"]


def test_missing_file_is_the_only_path(tmp_path: Path) -> None:
    assert list(links_to(tmp_path / "none")) == [tmp_path / "none"]


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert len(list(links_to(tmp_path / "a"))) == 40
