"""fsGroup: group and permissions of a volume."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from pykubelet.kubelet.actuate.volumes.ownership import give_to_group, group_mode, needs_change

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
    assert give_to_group(volume, GROUP) == 6
    assert [mode(volume / name) for name in ("f", "d/g", "d/e/h")] == [0o660] * 3
    assert [mode(volume / name) & 0o2770 for name in (".", "d", "d/e")] == [0o2770] * 3
    assert mode(volume.parent / "outside") == 0o600


def test_read_only_volumes_get_no_write_permission(volume: Path) -> None:
    give_to_group(volume, GROUP, read_only=True)
    assert mode(volume / "d/g") == 0o640
    assert mode(volume) == 0o2750


def test_on_root_mismatch_trusts_the_root(volume: Path) -> None:
    assert give_to_group(volume, GROUP, "OnRootMismatch") == 6
    (volume / "f").chmod(0o600)
    assert give_to_group(volume, GROUP, "OnRootMismatch") == 0
    assert mode(volume / "f") == 0o600
    assert give_to_group(volume, GROUP, "Always") == 6
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
