"""The layout below ROOT/pods."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.kubelet.actuate.volumes import PodDirs
from pykubelet.kubelet.types.ids import PodUID

UID = PodUID("0f3b-1")


def test_pod_dirs_have_the_layout_of_the_go_kubelet(tmp_path: Path) -> None:
    dirs = PodDirs.at(tmp_path / "kubelet")
    pod = tmp_path / "kubelet/pods" / UID
    assert dirs.etc_hosts(UID) == pod / "etc-hosts"
    assert dirs.of_volumes.volume(UID, "kubernetes.io/empty-dir", "v") == pod / "volumes/kubernetes.io~empty-dir/v"
    assert dirs.of_volumes.subpath(UID, "v", "app", 2) == pod / "volume-subpaths/v/app/2"
    assert dirs.of_volumes.plugins(UID) == pod / "plugins"
    assert dirs.container(UID, "app") == pod / "containers/app"


def test_directories_are_closed_to_others(tmp_path: Path) -> None:
    dirs = PodDirs.at(tmp_path / "kubelet")
    dirs.prepare(UID)
    dirs.prepare(UID)
    for path in (dirs.root, dirs.pods, dirs.pod(UID), dirs.of_volumes.all(UID), dirs.of_volumes.plugins(UID)):
        assert stat.S_IMODE(path.stat().st_mode) & 0o027 == 0, path


def test_the_root_is_free_of_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert PodDirs.at(tmp_path / "link").root == (tmp_path / "real").resolve()


def test_termination_log_is_a_new_file_that_anyone_may_write(tmp_path: Path) -> None:
    dirs = PodDirs.at(tmp_path)
    dirs.prepare(UID)
    mask = os.umask(0o077)
    try:
        first, second = (dirs.termination_log(UID, "app") for _ in range(2))
    finally:
        os.umask(mask)
    assert first != second
    assert first.parent == dirs.container(UID, "app")
    assert len(first.name) == 8
    assert stat.S_IMODE(first.stat().st_mode) == 0o666


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../etc", "a\nb", "\0", "-x", "x" * 254])
def test_names_that_could_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    dirs = PodDirs.at(tmp_path)
    calls: list[Callable[[], Path]] = [
        lambda: dirs.pod(PodUID(name)),
        lambda: dirs.of_volumes.volume(UID, "kubernetes.io/secret", name),
        lambda: dirs.container(UID, name),
        lambda: dirs.of_volumes.subpath(UID, "v", name, 0),
    ]
    for call in calls:
        with pytest.raises(Invalid):
            call()


def test_uids_lists_pod_directories(tmp_path: Path) -> None:
    dirs = PodDirs.at(tmp_path)
    assert dirs.uids() == set()
    dirs.prepare(UID)
    (dirs.pods / "file").touch()
    (dirs.pods / "link").symlink_to(UID)
    assert dirs.uids() == {UID}
