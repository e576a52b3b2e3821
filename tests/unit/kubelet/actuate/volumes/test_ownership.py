"""fsGroup: group and permissions of a volume."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.actuate.volumes.ownership import give_to_group, group_mode, needs_change
from pykubelet.linux.filesystems import mounts, treewalk

GROUP = os.getgid()


@pytest.mark.parametrize(
    ("mode", "read_only", "expected"),
    [
        (stat.S_IFREG | 0o600, False, 0o660),
        (stat.S_IFREG | 0o755, False, 0o775),
        (stat.S_IFREG | 0o400, True, 0o440),
        (stat.S_IFDIR | 0o700, False, 0o2770),
        (stat.S_IFDIR | 0o1777, False, 0o3777),
        (stat.S_IFDIR | 0o700, True, 0o2750),
        (stat.S_IFREG | 0o4711, False, 0o4771),
    ],
)
def test_group_mode_adds_what_the_owner_may_do(mode: int, read_only: bool, expected: int) -> None:
    assert group_mode(mode, read_only=read_only) == expected


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    root = tmp_path / "volume"
    (root / "d/e").mkdir(parents=True)
    for name in ("f", "d/g", "d/e/h"):
        (root / name).write_text("x")
        (root / name).chmod(0o600)
    (tmp_path / "outside").write_text("x")
    (tmp_path / "outside").chmod(0o600)
    (root / "link").symlink_to("../outside")
    root.chmod(0o700)
    return root


def test_give_to_group_changes_everything_and_follows_no_links(volume: Path) -> None:
    assert give_to_group(volume, GROUP) == 7
    assert [mode(volume / name) for name in ("f", "d/g", "d/e/h")] == [0o660] * 3
    assert [mode(volume / name) & 0o2770 for name in (".", "d", "d/e")] == [0o2770] * 3
    assert mode(volume.parent / "outside") == 0o600


def test_read_only_volumes_get_no_write_permission(volume: Path) -> None:
    give_to_group(volume, GROUP, read_only=True)
    assert mode(volume / "d/g") == 0o640
    assert mode(volume) == 0o2750


def test_on_root_mismatch_trusts_the_root(volume: Path) -> None:
    assert give_to_group(volume, GROUP, "OnRootMismatch") == 7
    (volume / "f").chmod(0o600)
    assert give_to_group(volume, GROUP, "OnRootMismatch") == 0
    assert mode(volume / "f") == 0o600
    assert give_to_group(volume, GROUP, "Always") == 7
    assert mode(volume / "f") == 0o660


def test_needs_change_compares_group_mode_and_setgid_of_the_root(volume: Path) -> None:
    give_to_group(volume, GROUP)
    info = volume.stat()
    assert not needs_change(info, GROUP)
    assert needs_change(info, GROUP + 1)
    volume.chmod(0o770)
    assert needs_change(volume.stat(), GROUP)


def test_the_root_must_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError):
        give_to_group(tmp_path / "link", GROUP)


def test_give_to_group_a_tree_deeper_than_the_stack_changes_all_of_it(tmp_path: Path) -> None:
    depth = 1500
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", 0o700, dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    try:
        assert give_to_group(tmp_path, GROUP) == depth + 1
        assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o2770
    finally:
        os.close(fd)
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


@pytest.mark.root
def test_links_get_the_group_and_what_they_lead_to_does_not(volume: Path) -> None:
    give_to_group(volume, 7632)
    assert (volume / "link").lstat().st_gid == 7632
    assert (volume.parent / "outside").stat().st_gid == GROUP


@pytest.fixture
def mounted(volume: Path) -> Iterator[Path]:
    """A volume with a file system below it, and another one below that, each in a deep directory."""
    below = volume / Path(*"d" * 40)
    below.mkdir(parents=True)
    points = [below]
    mounts.tmpfs(str(below))
    try:
        lower = below / Path(*"d" * 40)
        lower.mkdir(parents=True)
        points.append(lower)
        mounts.tmpfs(str(lower))
        for directory in (volume, below, lower):
            for name in ("d/c", "d/e", "z"):
                (directory / name).mkdir(exist_ok=True, parents=True)
        yield volume
    finally:
        for point in reversed(points):
            mounts.unmount(str(point))


@pytest.mark.root
@pytest.mark.parametrize("entered", [1 << 14, 10])
def test_file_systems_below_are_given_to_the_group(
    mounted: Path, entered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Levels above are closed on both sides of a mount; without names, the level below is searched.
    monkeypatch.setattr(treewalk, "_MOST_LEVELS", 3)
    monkeypatch.setattr(treewalk, "_MOST_ENTERED", entered)
    give_to_group(mounted, 7632)
    found = {Path(parent, name) for parent, below, files in os.walk(mounted) for name in (".", *below, *files)}
    assert [path for path in found if path.lstat().st_gid != 7632] == []
    assert sum(path.name == "z" for path in found) == 3


def test_change_that_leaves_out_a_directory_fails_and_is_not_taken_for_done(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scandir(fd: int, scandir: object = os.scandir) -> object:
        if os.path.samestat(os.fstat(fd), (volume / "d/e").stat()):
            raise PermissionError(13, "Permission denied")
        return scandir(fd)  # type: ignore[operator]

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        with pytest.raises(Transient, match=r"not changed everywhere: .*Permission denied"):
            give_to_group(volume, GROUP, "OnRootMismatch")
    assert mode(volume / "d/e/h") == 0o600
    assert give_to_group(volume, GROUP, "OnRootMismatch") == 7
    assert mode(volume / "d/e/h") == 0o660


def test_directory_that_is_removed_during_the_change_is_no_error(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scandir(fd: int, scandir: object = os.scandir) -> object:
        path = volume / "d/e"
        if path.exists() and os.path.samestat(os.fstat(fd), path.stat()):
            (path / "h").unlink()
            path.rmdir()
        return scandir(fd)  # type: ignore[operator]

    monkeypatch.setattr(os, "scandir", scandir)
    give_to_group(volume, GROUP)
    assert mode(volume / "d/g") == 0o660 and not (volume / "d/e").exists()
