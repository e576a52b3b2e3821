"""Atomic writer: the `..data` layout, updates as readers see them, and crashes at each step."""

import itertools
import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.volumes.kinds import atomic_writer
from pykubelet.kubelet.actuate.volumes.kinds.atomic_writer import write_payload
from pykubelet.kubelet.actuate.volumes.plan.payload import FileProjection
from pykubelet.linux.filesystems import removal

P = ParamSpec("P")
T = TypeVar("T")

NOW = 1_795_233_906.5  # 2026-11-21 04:05:06 UTC
OLD = {"keep": "1", "change": "old", "gone": "x", "sub/keep": "1", "sub/gone": "x", "gonesub/x": "x"}
NEW = {"keep": "1", "change": "new", "added": "y", "sub/keep": "1", "sub/added": "y", "newsub/x/y": "y"}


def payload(files: dict[str, str], mode: int = 0o644) -> dict[str, FileProjection]:
    return {path: FileProjection(text.encode(), mode) for path, text in files.items()}


def read(directory: Path) -> dict[str, str]:
    """All files of a directory, links to directories followed, hidden names of the layout left out."""
    return {
        str(Path(top, name).relative_to(directory)): Path(top, name).read_text()
        for top, _, names in os.walk(directory, followlinks=True)
        for name in names
        if ".." not in str(Path(top, name).relative_to(directory))
    }


def check_layout(target: Path, files: dict[str, str]) -> None:
    """The target shows exactly these files and holds nothing else."""
    names = {entry.name for entry in target.iterdir()}
    version = str((target / "..data").readlink())
    tops = {path.partition("/")[0] for path in files}
    assert names == {"..data", version} | tops
    for name in tops:
        assert str((target / name).readlink()) == f"..data/{name}"
    assert read(target) == files


def test_the_layout_is_that_of_kubernetes(tmp_path: Path) -> None:
    assert write_payload(tmp_path, payload({"a": "1", "d/b": "2", "d/e/c": "3"}, 0o640), now=NOW)
    check_layout(tmp_path, {"a": "1", "d/b": "2", "d/e/c": "3"})
    version = str((tmp_path / "..data").readlink())
    assert re.fullmatch(r"\.\.2026_11_21_04_05_06\.\d+", version)
    assert stat.S_IMODE((tmp_path / version).stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / version / "d/e").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_nothing_is_written_when_nothing_changed(tmp_path: Path) -> None:
    write_payload(tmp_path, payload(OLD), now=NOW)
    before = (tmp_path / "..data").lstat()
    assert not write_payload(tmp_path, payload(OLD), now=NOW + 60)
    assert (tmp_path / "..data").lstat() == before


def test_a_change_replaces_everything_at_once(tmp_path: Path) -> None:
    write_payload(tmp_path, payload(OLD), now=NOW)
    assert write_payload(tmp_path, payload(NEW), now=NOW)
    check_layout(tmp_path, NEW)


@pytest.mark.parametrize("files", [{}, {"a": ""}])
def test_writer_leaves_no_extra_files(tmp_path: Path, files: dict[str, str]) -> None:
    write_payload(tmp_path, payload(OLD), now=NOW)
    assert write_payload(tmp_path, payload(files), now=NOW)
    check_layout(tmp_path, files)
    assert not write_payload(tmp_path, payload(files), now=NOW)


def test_a_file_may_become_a_directory_and_back(tmp_path: Path) -> None:
    for files in ({"a": "1"}, {"a/b": "2"}, {"a": "3"}):
        write_payload(tmp_path, payload(files), now=NOW)
        check_layout(tmp_path, files)


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        write_payload(tmp_path, {"d/a": FileProjection(b"", 0o666)}, now=NOW)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "d/a").stat().st_mode) == 0o666
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o755


def test_file_without_a_group_keeps_a_mode_that_only_its_owner_may_read(tmp_path: Path) -> None:
    write_payload(tmp_path, payload({"key": "secret"}, 0o400), now=NOW)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o400


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_version_that_is_gone_is_written_again(tmp_path: Path, kind: str) -> None:
    write_payload(tmp_path, payload(OLD), now=NOW)
    version = tmp_path / (tmp_path / "..data").readlink()
    removal.remove_tree(version)
    if kind == "file":
        version.touch()
    assert write_payload(tmp_path, payload(OLD), now=NOW + 1)
    assert read(tmp_path) == OLD


def test_with_a_group_everything_is_readable_for_it(tmp_path: Path) -> None:
    files = {"d/a": FileProjection(b"", 0o400), "b": FileProjection(b"", 0o600)}
    write_payload(tmp_path, files, now=NOW, fs_group=os.getgid())
    assert stat.S_IMODE((tmp_path / "d/a").stat().st_mode) == 0o440
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o2755
    assert stat.S_IMODE((tmp_path / "..data/.").stat().st_mode) == 0o2755


def test_a_bad_path_changes_nothing(tmp_path: Path) -> None:
    write_payload(tmp_path, payload(OLD), now=NOW)
    with pytest.raises(Invalid):
        write_payload(tmp_path, payload({"a": "1", "../b": "2"}), now=NOW)
    check_layout(tmp_path, OLD)


def test_the_directory_itself_must_not_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(OSError):
        write_payload(tmp_path / "link", payload(OLD), now=NOW)
    assert not list((tmp_path / "real").iterdir())


def test_links_in_the_payloads_place_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = tmp_path / "target"
    target.mkdir()
    (target / "..data").symlink_to("../outside")
    write_payload(target, payload({"a": "1"}), now=NOW)
    check_layout(target, {"a": "1"})
    assert not list(outside.iterdir())


def test_content_behind_a_data_link_of_someone_else_is_not_taken_for_a_version(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (outside / "a").write_text("1")
    (target / "..data").symlink_to("../outside")
    assert write_payload(target, payload({"a": "1"}), now=NOW)
    check_layout(target, {"a": "1"})
    assert read(outside) == {"a": "1"}


def test_links_of_someone_else_stay(tmp_path: Path) -> None:
    links = {"other": "elsewhere", "gone": "..data/keep", "..mine": "..data"}
    write_payload(tmp_path, payload({"keep": "1"}), now=NOW)
    for name, to in links.items():
        (tmp_path / name).symlink_to(to)
    (tmp_path / "stale").symlink_to("..data/stale")
    write_payload(tmp_path, payload({"keep": "2"}), now=NOW)
    assert {name: str((tmp_path / name).readlink()) for name in links} == links
    assert not (tmp_path / "stale").is_symlink()


def test_owners_are_those_of_the_pod_and_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directories: list[tuple[str, int, int, bool]] = []
    files: list[tuple[int, int]] = []

    def chown(path: str, uid: int, gid: int, *, dir_fd: int, follow_symlinks: bool) -> None:
        assert stat.S_ISDIR(os.stat(path, dir_fd=dir_fd, follow_symlinks=False).st_mode)
        directories.append((path, uid, gid, follow_symlinks))

    monkeypatch.setattr(os, "chown", chown)
    monkeypatch.setattr(os, "fchown", lambda fd, uid, gid: files.append((uid, gid)))
    mine = {"d/token": FileProjection(b"", 0o600, uid=7)}
    plain = {"plain": FileProjection(b"", 0o644)}
    write_payload(tmp_path, plain, now=NOW)
    assert (directories, files) == ([], [])
    write_payload(tmp_path, mine, now=NOW)
    assert (directories, files) == ([], [(7, -1)])
    files.clear()
    write_payload(tmp_path, plain | mine, now=NOW, fs_group=99)
    version = str((tmp_path / "..data").readlink())
    assert directories == [(version, -1, 99, False), ("d", -1, 99, False)]
    assert sorted(files) == [(-1, 99), (7, 99)]


def test_mount_points_of_other_volumes_stay(tmp_path: Path) -> None:
    (tmp_path / "nested/deep").mkdir(parents=True)
    write_payload(tmp_path, payload({"a": "1"}), now=NOW)
    write_payload(tmp_path, payload({"b": "1"}), now=NOW)
    assert (tmp_path / "nested/deep").is_dir()
    assert not (tmp_path / "a").is_symlink()


def test_damaged_content_is_written_again(tmp_path: Path) -> None:
    write_payload(tmp_path, payload(OLD), now=NOW)
    (tmp_path / "keep").write_text("2")
    assert write_payload(tmp_path, payload(OLD), now=NOW)
    (tmp_path / "..data/extra").write_text("2")
    assert write_payload(tmp_path, payload(OLD), now=NOW)
    (tmp_path / "sub/keep").unlink()
    assert write_payload(tmp_path, payload(OLD), now=NOW)
    check_layout(tmp_path, OLD)


class Crash(BaseException):
    """The process is gone."""


class CrashingOs:
    """The `os` module, which looks at the directory after each call and dies before the n-th that changes something."""

    CHANGES = ("mkdir", "symlink", "rename", "unlink", "rmdir", "write", "chmod", "fchmod", "open")

    def __init__(self, steps: int, look: Callable[[], None]) -> None:
        self._left = steps
        self._look = look

    def __getattr__(self, name: str) -> object:
        real = getattr(os, name)
        return self._watched(real) if name in self.CHANGES else real

    def _watched(self, real: Callable[P, T]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            if self._left == 0:
                raise Crash
            self._left -= 1
            result = real(*args, **kwargs)
            self._look()
            return result

        return call


def test_a_crash_at_any_step_leaves_old_or_new_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    for steps in itertools.count():
        target = tmp_path / str(steps)
        target.mkdir()
        write_payload(target, payload(OLD), now=NOW)

        def look(directory: Path = target / "..data") -> None:
            shown = read(directory.resolve())
            assert shown in (OLD, NEW)
            seen.add("old" if shown == OLD else "new")

        with monkeypatch.context() as patch:
            crashing = CrashingOs(steps, look)
            patch.setattr(atomic_writer, "os", crashing)
            patch.setattr(removal, "os", crashing)
            try:
                write_payload(target, payload(NEW), now=NOW)
                ended = True
            except Crash:
                ended = False
        look()
        assert write_payload(target, payload(NEW), now=NOW) in ({True, False} if not ended else {False})
        check_layout(target, NEW)
        if ended:
            break
    assert steps > 40
    assert seen == {"old", "new"}


def test_a_crash_before_the_first_version_leaves_nothing_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in itertools.count():
        target = tmp_path / str(steps)
        target.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(atomic_writer, "os", CrashingOs(steps, lambda: None))
            try:
                write_payload(target, payload(NEW), now=NOW)
                ended = True
            except Crash:
                ended = False
        visible = read(target)
        assert visible.items() <= NEW.items()
        write_payload(target, payload(NEW), now=NOW)
        check_layout(target, NEW)
        if ended:
            break
    assert steps > 20


_NAMES = st.lists(st.sampled_from(["a", "b", "c", "x.y"]), min_size=1, max_size=3).map("/".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(_NAMES, st.text("xyz", max_size=3), max_size=4), max_size=4))
def test_any_sequence_of_versions_ends_with_the_last(
    tmp_path_factory: pytest.TempPathFactory, versions: list[dict[str, str]]
) -> None:
    target = tmp_path_factory.mktemp("volume")
    shown: dict[str, str] | None = None
    for files in versions:
        try:
            write_payload(target, payload(files), now=NOW)
            shown = files
        except Invalid:
            pass  # a file that would be a directory too
    if shown is not None:
        check_layout(target, shown)


def test_file_deeper_than_the_stack_is_written_and_found_unchanged(tmp_path: Path) -> None:
    files = {"d/" * 1200 + "f": "1"}
    assert write_payload(tmp_path, payload(files), now=NOW)
    assert not write_payload(tmp_path, payload(files), now=NOW + 60)
    subprocess.run(["rm", "-rf", str(tmp_path / str((tmp_path / "..data").readlink()))], check=True)
