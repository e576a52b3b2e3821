"""The cgroup that has the limits of a container, in directories laid out as runc and crun leave them."""

from pathlib import Path

import pytest

from pykubelet.linux.cgroups.container_cgroup import container_cgroup


@pytest.mark.parametrize(
    ("name", "child", "processes", "found"),
    [
        ("cri-1.scope", "container", "", "cri-1.scope/container"),  # crun
        ("cri-1.scope", None, "17\n", "cri-1.scope"),  # runc
        ("cri-1.scope", None, "", "cri-1.scope"),  # its processes have ended
        ("cri-1.scope", "init", "", "cri-1.scope"),  # a program that has a tree of its own
        ("cri-1.scope", "container", "17\n", "cri-1.scope"),  # the same, with that name
        ("a.slice", "container", "", "a.slice"),
        ("1f2e", "container", "", "1f2e"),  # crun without systemd
    ],
)
def test_by_what_there_is(tmp_path: Path, name: str, child: str | None, processes: str, found: str) -> None:
    scope = tmp_path / name
    scope.mkdir()
    (scope / "cgroup.procs").write_text(processes)
    if child is not None:
        (scope / child).mkdir()
    assert container_cgroup(scope) == tmp_path / found


def test_one_that_goes_away(tmp_path: Path) -> None:
    assert container_cgroup(tmp_path / "gone.scope") == tmp_path / "gone.scope"
    (tmp_path / "going.scope" / "container").mkdir(parents=True)
    assert container_cgroup(tmp_path / "going.scope") == tmp_path / "going.scope"
