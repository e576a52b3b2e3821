"""Parsing of mountinfo, and finding mounts."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.linux.filesystems.mountinfo import (
    Mount,
    at_or_below,
    is_mount_point,
    mount_of,
    mounts,
    mounts_below,
    mounts_of_directory,
    parse,
)

LINES = r"""
36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue
37 36 0:5 / /mnt2/a\040b\134c ro - tmpfs none rw,size=4k
38 36 0:6 / /mnt2 rw - tmpfs second rw
39 35 0:7 / /mnt22 rw - tmpfs other rw
"""


def test_fields_of_a_mount_are_parsed_and_unescaped() -> None:
    first, second, *_ = parse(LINES)
    assert first == Mount(
        id=36,
        parent_id=35,
        device="98:0",
        root="/mnt1",
        path="/mnt2",
        options=frozenset({"rw", "noatime"}),
        tags=("master:1", "shared:7"),
        fs_type="ext3",
        source="/dev/root",
        super_options=("rw", "errors=continue"),
    )
    assert (second.path, second.read_only, second.tags) == ("/mnt2/a b\\c", True, ())


def test_below_is_newest_first_and_goes_by_components() -> None:
    assert [mount.id for mount in at_or_below(parse(LINES), "/mnt2")] == [38, 37, 36]
    assert [mount.id for mount in at_or_below(parse(LINES), "/mnt2/")] == [37]
    assert len(at_or_below(parse(LINES), "/")) == 4


@pytest.mark.parametrize(
    ("path", "found"), [("/mnt2", 38), ("/mnt2/x", 38), ("/mnt2/a b\\c/x", 37), ("/mnt22/x", 39), ("/mnt", None)]
)
def test_mount_of_a_path_is_the_deepest_above_it(path: str, found: int | None) -> None:
    mount = mount_of(parse(LINES), path)
    assert (mount.id if mount else None) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/disk/a", [2, 4]),
        ("/shown/a", [2, 4]),
        ("/disk", [1]),
        ("/disk/a/b", [5]),
        ("/shown/b", []),
        ("/disk/ab", []),
        ("/below/x", [7]),
        ("/nowhere", []),
    ],
)
def test_mounts_that_show_the_same_directory_are_found(path: str, found: list[int]) -> None:
    lines = """
1 0 8:1 / /disk rw - ext4 /dev/a rw
2 0 8:1 /a /pods/1/a rw - ext4 /dev/a rw
3 0 8:2 /a /pods/2/a rw - ext4 /dev/b rw
4 0 8:1 /a /shown/a rw - ext4 /dev/a rw
5 0 8:1 /a/b /pods/3/b rw - ext4 /dev/a rw
6 0 8:3 /deep/er /below rw - ext4 /dev/c rw
7 0 8:3 /deep/er/x /pods/4/x ro - ext4 /dev/c rw
"""
    assert [mount.id for mount in mounts_of_directory(parse(lines), path)] == found


def test_mounts_below_a_path_agree_with_the_parsed_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(LINES)
    monkeypatch.setattr("pykubelet.linux.filesystems.mountinfo.MOUNTINFO", str(table))
    for path in ("/", "/mnt2", "/mnt2/", "/mnt2/a b\\c", "/mnt", "/none"):
        assert mounts_below(path) == at_or_below(parse(LINES), path)


@given(st.text(alphabet=" \t\n\\ab/0\x0b\x85\u2028", min_size=1, max_size=20))
def test_escapes_round_trip(name: str) -> None:
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in name)
    (mount,) = parse(f"1 0 0:1 / /{escaped} rw - tmpfs x rw")
    assert mount.path == "/" + name


def test_mount_points_of_this_machine_are_recognized(tmp_path: Path) -> None:
    assert any(mount.path == "/proc" and mount.fs_type == "proc" for mount in mounts())
    assert is_mount_point("/")
    assert is_mount_point("/proc")
    assert not is_mount_point(tmp_path)
    assert not is_mount_point(tmp_path / "missing")
    (tmp_path / "file").touch()
    assert not is_mount_point(tmp_path / "file" / "below")
    (tmp_path / "link").symlink_to("/proc")
    assert not is_mount_point(tmp_path / "link")
