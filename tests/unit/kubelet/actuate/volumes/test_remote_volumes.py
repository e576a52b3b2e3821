"""Remote volumes: NFS servers that are not responding."""

import threading
from pathlib import Path

import pytest

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.actuate.volumes.mount import remote_volumes
from pykubelet.kubelet.actuate.volumes.mount.remote_volumes import RemoteVolumes
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.actuate.volumes.volume_threads import BlockingJobs
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import Mount, parse
from pykubelet.testing.loop_files import files_in_loop

UID = PodUID("u-1")


@pytest.fixture
def volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteVolumes:
    """Of a pod with one export mounted, as the kernel tells it."""
    dirs = PodDirs.at(tmp_path)
    target = dirs.of_volumes.volume(UID, "kubernetes.io/nfs", "v")
    target.mkdir(parents=True)
    table = parse(f"36 35 0:42 / {target} rw shared:1 - nfs4 files:/export rw\n")

    def below(path: str) -> list[Mount]:
        return [mount for mount in table if mount.path.startswith(path)]

    monkeypatch.setattr(remote_volumes, "mounts_below", below)
    return RemoteVolumes(dirs=dirs, blocking=BlockingJobs(1.0), timeout=1.0)


async def test_nfs_mount_is_unmounted(volumes: RemoteVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    unmounted: list[str] = []
    monkeypatch.setattr(mounts, "unmount", unmounted.append)
    await volumes.tear_down(UID)
    assert [Path(path).name for path in unmounted] == ["v"]


async def test_remote_volumes_are_found_on_disk_in_a_thread(volumes: RemoteVolumes) -> None:
    with files_in_loop(volumes.dirs.root) as used:
        found = await volumes.has_any(UID), await volumes.has_any(PodUID("u-2"))
    assert (found, used) == ((True, False), [])


async def test_nfs_mount_of_dead_server_is_detached(volumes: RemoteVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    detached: list[str] = []
    monkeypatch.setattr(mounts, "unmount", lambda path: answer.wait(20))
    monkeypatch.setattr(mounts, "detach", detached.append)
    try:
        await volumes.tear_down(UID)
    finally:
        answer.set()
    assert [Path(path).name for path in detached] == ["v"]


async def test_nfs_mount_unmounted_meanwhile_is_no_error(
    volumes: RemoteVolumes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: str) -> None:
        raise NotFound(path)

    monkeypatch.setattr(mounts, "unmount", gone)
    await volumes.tear_down(UID)
