"""The cgroup layout that a mount table shows."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.linux.cgroups import Layout, Mode, has_controller, open_driver, problem
from pykubelet.linux.cgroups.detect import layout_of
from pykubelet.linux.filesystems.mountinfo import parse

V2 = "35 27 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
V1 = """\
31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:30 / /a/much/longer/place/of/memory rw - cgroup cgroup rw,memory
33 31 0:30 / /sys/fs/cgroup/memory ro,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,release_agent=/lib/agent,name=systemd
"""
UNIFIED = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
ONLY_SYSTEMD = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"


@pytest.mark.parametrize(
    ("table", "mode", "version"),
    [
        ("", Mode.NONE, 0),
        (V2, Mode.V2, 2),
        (V1, Mode.V1, 1),
        (V1 + UNIFIED, Mode.HYBRID, 1),
        (V2 + ONLY_SYSTEMD, Mode.V2, 2),
        (ONLY_SYSTEMD, Mode.NONE, 0),
    ],
)
def test_cgroup_mode_is_detected_from_the_mount_table(table: str, mode: Mode, version: int) -> None:
    layout = layout_of(parse(table))
    assert (layout.mode, layout.version) == (mode, version)


def test_controllers_and_read_only_mounts() -> None:
    layout = layout_of(parse(V1 + UNIFIED))
    cpu = Path("/sys/fs/cgroup/cpu,cpuacct")
    assert layout.controllers == {
        "cpu": cpu,
        "cpuacct": cpu,
        "memory": Path("/sys/fs/cgroup/memory"),
        "name=systemd": Path("/sys/fs/cgroup/systemd"),
    }
    assert layout.unified == Path("/sys/fs/cgroup/unified")
    assert Path("/sys/fs/cgroup/memory") in layout.read_only


def test_problems_are_reported_with_their_remedy(tmp_path: Path) -> None:
    assert "mount -t cgroup2" in (problem(Layout(Mode.NONE)) or "")
    assert "pids" in (problem(layout_of(parse(V1))) or "")
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    assert problem(Layout(Mode.V2, tmp_path)) is None
    assert "read-only" in (problem(Layout(Mode.V2, tmp_path, read_only=frozenset({tmp_path}))) or "")
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    assert "memory, pids" in (problem(Layout(Mode.V2, tmp_path)) or "")


def test_controller_of_the_root_counts_not_that_of_the_own_cgroup(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert has_controller(Layout(Mode.V2, tmp_path), "hugetlb")
    assert not has_controller(Layout(Mode.V2, tmp_path), "huge")
    assert has_controller(layout_of(parse(V1)), "memory")
    assert not has_controller(layout_of(parse(V1 + UNIFIED)), "hugetlb")
    assert not has_controller(Layout(Mode.NONE), "memory")


def test_cgroup_driver_has_the_version_of_the_layout(tmp_path: Path) -> None:
    assert open_driver(Layout(Mode.V2, tmp_path)).version == 2
    assert open_driver(layout_of(parse(V1))).version == 1
    with pytest.raises(Permanent):
        open_driver(Layout(Mode.NONE))
