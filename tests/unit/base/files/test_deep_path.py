"""Files of the node at paths of any depth."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.files.deep_path import make_directories, make_file, real_path, stat_path
from pykubelet.testing.deep_directories import depth_of, path_of, place_for_deep_ones

DEPTHS = [1, 1500, 2100]
"""The second is more than Python may recurse, the third has a path of more bytes than one call takes."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    with place_for_deep_ones(tmp_path) as made:
        yield made


@pytest.mark.parametrize("depth", DEPTHS)
def test_directories_are_created_at_any_depth(place: Path, depth: int) -> None:
    path = f"{place}/{path_of(depth)}"
    assert stat_path(path) is None
    former = os.umask(0o077)
    try:
        make_directories(path, 0o755)
    finally:
        os.umask(former)
    found = stat_path(path)
    assert found is not None and stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o755
    assert depth_of(place) == depth
    make_directories(path, 0o700)
    assert stat_path(path) == found


@pytest.mark.parametrize("depth", DEPTHS)
def test_file_is_created_at_any_depth_in_a_directory_that_exists(place: Path, depth: int) -> None:
    path = f"{place}/{path_of(depth)}/file"
    with pytest.raises(FileNotFoundError):
        make_file(path, 0o644)
    make_directories(f"{place}/{path_of(depth)}", 0o755)
    make_file(path, 0o644)
    found = stat_path(path)
    assert found is not None and stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o644
    make_file(path, 0o600)
    assert stat_path(path) == found


def test_links_are_followed_and_relative_paths_begin_in_the_current_directory(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "real").mkdir()
    (place / "link").symlink_to(place / "real")
    monkeypatch.chdir(place)
    make_directories("link/./new//", 0o755)
    make_file("link/new/file", 0o644)
    assert (place / "real/new/file").is_file()
    found = stat_path("link/new/../new/file")
    assert found is not None and found.st_ino == (place / "real/new/file").stat().st_ino
    assert stat_path("/") == Path("/").stat()


def test_files_and_links_in_the_place_of_a_directory_stay(place: Path) -> None:
    (place / "file").write_text("kept")
    (place / "nowhere").symlink_to("missing")
    for name in ("file", "nowhere"):
        with pytest.raises(FileExistsError):
            make_directories(f"{place}/{name}", 0o755)
    with pytest.raises(NotADirectoryError):
        make_directories(f"{place}/file/below", 0o755)
    assert (place / "file").read_text() == "kept" and not (place / "missing").exists()
    assert stat_path(f"{place}/file/below") is None and stat_path(f"{place}/nowhere") is None


def test_directory_that_another_process_creates_first_is_entered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = os.mkdir

    def racing(name: str, mode: int, *, dir_fd: int) -> None:
        mkdir(name, 0o711, dir_fd=dir_fd)
        mkdir(name, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", racing)
    make_directories(f"{place}/a/a", 0o755)
    monkeypatch.undo()
    assert [stat.S_IMODE((place / name).stat().st_mode) for name in ("a", "a/a")] == [0o711, 0o711]


def test_descriptors_are_closed(place: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    make_directories(f"{place}/{path_of(50)}", 0o755)
    make_file(f"{place}/{path_of(50)}/file", 0o644)
    for path in ("missing/x", f"{path_of(50)}/file/x"):
        with pytest.raises(OSError):
            make_file(f"{place}/{path}", 0o644)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_links_to_links_are_followed_as_far_as_the_kernel_does(place: Path) -> None:
    (place / "0").touch()
    for number in range(1, 1501):
        (place / str(number)).symlink_to(str(number - 1))
    assert real_path(f"{place}/30") == f"{place.resolve()}/0"
    for number in (50, 1500):
        with pytest.raises(OSError, match="Too many levels of symbolic links"):
            real_path(f"{place}/{number}")
