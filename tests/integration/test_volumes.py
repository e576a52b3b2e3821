"""Volumes with real mounts: memory, sub-paths, teardown. All files are below the test's own directory."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.actuate.actuate_types import VolumeError
from pykubelet.kubelet.actuate.cri_messages.config_types import DownwardContext
from pykubelet.kubelet.actuate.volumes import VolumeDeps, VolumeManager
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.filesystems import mounts
from pykubelet.linux.filesystems.mountinfo import Mount, at_or_below, is_mount_point
from pykubelet.linux.filesystems.mountinfo import mounts as all_mounts
from pykubelet.models.core_v1 import ConfigMap, Secret
from tests.unit.kubelet.actuate.volumes.build import UID, Claims, Fields, Images, Kit, mounting, pod_with, using

pytestmark = pytest.mark.root

SECRET: Fields = {"name": "sec", "secret": {"secretName": "s"}}
CONFIG: Fields = {"name": "cfg", "configMap": {"name": "cm"}}
SCRATCH: Fields = {"name": "scratch", "emptyDir": {}}
MEMORY: Fields = {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path / "root", downward=DownwardContext(allocatable={"memory": "64Mi"}))
    kit.objects.secrets["s"] = Secret(data={"password": b"hunter2"})
    kit.objects.config_maps["cm"] = ConfigMap(data={"key": "one"})
    yield kit
    left = at_or_below(all_mounts(), str(tmp_path))
    mounts.unmount_all_under(str(tmp_path), lazy=True)
    assert left == [], "the test left mounts behind"


def mounted(kit: Kit) -> list[Mount]:
    return at_or_below(all_mounts(), str(kit.dirs.pods))


def mount_at(path: Path) -> Mount:
    (mount,) = (mount for mount in all_mounts() if mount.path == str(path))
    return mount


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """An empty block device."""
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    made = subprocess.run(["losetup", "--find", "--show", str(image)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no loop devices: {made.stderr.strip()}")
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


async def test_a_local_device_gets_a_file_system_and_keeps_it(kit: Kit, disk: str) -> None:
    claims = Claims({"c": {"local": {"path": disk}}})
    deps = VolumeDeps(images=Images(), claims=claims, telemetry=kit.telemetry)
    first, second = using("c"), using("c")
    second = replace(second, metadata=replace(second.metadata, uid="u-2"))
    for round in range(2):
        # In the second round a new agent without state about the pods does it.
        manager = VolumeManager(dirs=kit.dirs, deps=deps)
        for pod in (first, second):
            await manager.mount(pod, kit.context)
        path = kit.volume("local-volume", "pv-c")
        assert mount_at(path).fs_type == "ext4" and mount_at(path).source == disk
        assert (path / "lost+found").is_dir()
        if round == 0:
            (path / "data").write_text("kept")
        assert (path / "data").read_text() == "kept"
        ending = VolumeManager(dirs=kit.dirs, deps=deps)
        await ending.unmount(UID)
        assert len([mount for mount in all_mounts() if mount.source == disk]) == 2, "the other pod has it"
        await ending.unmount(PodUID("u-2"))
        assert not [mount for mount in all_mounts() if mount.source == disk]
    claims.specs["c"] = {"local": {"path": disk, "fsType": "xfs"}}
    with pytest.raises(VolumeError, match="holds 'ext4', not 'xfs'; clear it"):
        await VolumeManager(dirs=kit.dirs, deps=deps).mount(first, kit.context)


async def test_removal_of_a_local_volume_keeps_what_is_mounted_in_its_directory(kit: Kit, tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.mkdir()
    mounts.make_shared(str(path))
    (path / "disk" / "inner").mkdir(parents=True)
    mounts.tmpfs(str(path / "disk" / "inner"))
    claims = Claims({"c": {"local": {"path": str(path / "disk")}}})
    manager = VolumeManager(dirs=kit.dirs, deps=VolumeDeps(images=Images(), claims=claims, telemetry=kit.telemetry))
    await manager.mount(using("c"), kit.context)
    assert (kit.volume("local-volume", "pv-c") / "inner").is_dir()
    await manager.unmount(UID)
    try:
        assert is_mount_point(path / "disk" / "inner")
    finally:
        mounts.unmount_all_under(str(path), lazy=True)


async def test_secret_volumes_are_on_tmpfs(kit: Kit) -> None:
    pod = pod_with(SECRET)
    await kit.mount(pod)
    path = kit.volume("secret", "sec")
    assert (path / "password").read_bytes() == b"hunter2"
    assert mode(path) == 0o1777
    mount = mount_at(path)
    assert mount.fs_type == "tmpfs"
    assert "size=65536k" in mount.super_options
    kit.objects.secrets["s"] = Secret(data={"password": b"changed"})
    await kit.mount(pod)
    assert (path / "password").read_bytes() == b"changed"
    assert len(mounted(kit)) == 1
    await kit.manager.remove(UID)


async def test_a_volume_in_memory_is_bounded_and_kept_out_of_the_swap(kit: Kit) -> None:
    await kit.mount(pod_with(MEMORY))
    path = kit.volume("empty-dir", "mem")
    with pytest.raises(OSError, match="No space"):
        (path / "big").write_bytes(b"x" * 2**21)
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    if (major, minor) >= (6, 4):
        assert "noswap" in mount_at(path).super_options
    await kit.manager.remove(UID)


async def test_files_of_volumes_belong_to_the_fs_group(kit: Kit) -> None:
    pod = pod_with(SECRET, CONFIG, MEMORY, SCRATCH, securityContext={"fsGroup": 4711})
    await kit.mount(pod)
    roots = {
        kit.volume("secret", "sec"): 0o3777,
        kit.volume("configmap", "cfg"): 0o2777,
        kit.volume("empty-dir", "mem"): 0o3777,
        kit.volume("empty-dir", "scratch"): 0o2777,
    }
    for path, expected in roots.items():
        assert (path.stat().st_gid, mode(path)) == (4711, expected), path
    for file in (kit.volume("secret", "sec") / "password", kit.volume("configmap", "cfg") / "key"):
        assert (file.stat().st_gid, mode(file)) == (4711, 0o644)
    await kit.manager.remove(UID)


async def test_volumes_are_reconstructed_after_restart(kit: Kit) -> None:
    pod = pod_with(SECRET, CONFIG, MEMORY)
    await kit.mount(pod)
    (kit.volume("empty-dir", "mem") / "data").write_text("x")
    before = (kit.volume("secret", "sec") / "..data").readlink()
    await kit.restarted().mount(pod, kit.context)
    assert (kit.volume("secret", "sec") / "..data").readlink() == before
    assert (kit.volume("empty-dir", "mem") / "data").read_text() == "x"
    assert len(mounted(kit)) == 2
    await kit.restarted().unmount(UID)
    assert mounted(kit) == []


async def test_secret_with_lost_mount_is_mounted_again(kit: Kit) -> None:
    pod = pod_with(SECRET)
    await kit.mount(pod)
    path = kit.volume("secret", "sec")
    mounts.unmount(str(path))
    await kit.mount(pod)
    assert is_mount_point(path)
    assert (path / "password").exists()
    await kit.manager.remove(UID)


async def test_projected_and_downward_volumes(kit: Kit) -> None:
    sources: list[Fields] = [
        {"configMap": {"name": "cm"}},
        {"secret": {"name": "s", "items": [{"key": "password", "path": "deep/pw", "mode": 0o400}]}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"secret": {"name": "none", "optional": True}},
        {"clusterTrustBundle": {"name": "b", "path": "ca", "optional": True}},
    ]
    downward = {"items": [{"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}], "defaultMode": 0o444}
    pod = pod_with(
        {"name": "all", "projected": {"sources": sources, "defaultMode": 0o640}},
        {"name": "down", "downwardAPI": downward},
    )
    await kit.mount(pod)
    path = kit.volume("projected", "all")
    assert {name: (path / name).read_text() for name in ("key", "deep/pw", "name", "ca")} == {
        "key": "one",
        "deep/pw": "hunter2",
        "name": "web",
        "ca": "",
    }
    assert (mode(path / "key"), mode(path / "deep/pw")) == (0o640, 0o400)
    assert (kit.volume("downward-api", "down") / "uid").read_text() == UID
    assert {mount.fs_type for mount in mounted(kit)} == {"tmpfs"}
    await kit.manager.remove(UID)


async def test_mount_points_inside_read_only_volumes_are_made(kit: Kit) -> None:
    places: list[Fields] = [{"name": "sec", "mountPath": "/etc/s"}, {"name": "scratch", "mountPath": "/etc/s/tmp/x"}]
    container = {"name": "app", "image": "i", "volumeMounts": places}
    await kit.mount(pod_with(SECRET, SCRATCH, containers=[container]))
    assert (kit.volume("secret", "sec") / "tmp/x").is_dir()
    await kit.manager.remove(UID)


def sub(path: str, name: str = "scratch", **more: object) -> Fields:
    return {"name": name, "mountPath": "/m", "subPath": path, **more}


async def test_sub_paths_are_made_and_bound(kit: Kit) -> None:
    pod = pod_with(SCRATCH, CONFIG)
    await kit.mount(pod)
    container = mounting(sub("a/b"), sub("key", "cfg"), {"name": "scratch", "mountPath": "/w", "subPathExpr": "$(X)"})
    found = await kit.manager.container_mounts(pod, container, {"X": "logs"})
    targets = [Path(mount.host_path) for mount in found]
    directory = kit.dirs.of_volumes.subpaths(UID)
    assert targets == [directory / "scratch/app/0", directory / "cfg/app/1", directory / "scratch/app/2"]
    root = kit.volume("empty-dir", "scratch")
    assert targets[0].samefile(root / "a/b")
    assert (mode(root / "a"), mode(root / "a/b")) == (0o777, 0o777)
    assert targets[1].read_text() == "one"
    assert targets[2].samefile(root / "logs")
    assert [mount.read_only for mount in found] == [False, True, False]
    await kit.manager.container_mounts(pod, container, {"X": "logs"})
    assert len(mounted(kit)) == 3, "bound once only"
    assert (root / "a/b").is_dir()
    await kit.manager.unmount(UID)
    assert mounted(kit) == []
    assert not directory.exists()
    await kit.manager.remove(UID)


async def test_changed_sub_path_is_bind_mounted_again(kit: Kit) -> None:
    pod = pod_with(CONFIG)
    await kit.mount(pod)
    (mount,) = await kit.manager.container_mounts(pod, mounting(sub("key", "cfg")), {})
    kit.objects.config_maps["cm"] = ConfigMap(data={"key": "two"})
    await kit.mount(pod)
    assert Path(mount.host_path).read_text() == "one", "a sub-path is not updated, as in the Go kubelet"
    await kit.restarted().mount(pod, kit.context)
    await kit.manager.container_mounts(pod, mounting(sub("key", "cfg")), {})
    assert Path(mount.host_path).read_text() == "two"
    assert len(mounted(kit)) == 1
    await kit.manager.remove(UID)


async def test_a_target_of_the_wrong_kind_is_replaced(kit: Kit) -> None:
    pod = pod_with(SCRATCH, CONFIG)
    await kit.mount(pod)
    target = kit.dirs.of_volumes.subpath(UID, "cfg", "app", 0)
    target.mkdir(parents=True)
    await kit.manager.container_mounts(pod, mounting(sub("key", "cfg")), {})
    assert target.read_text() == "one"
    other = kit.dirs.of_volumes.subpath(UID, "scratch", "app", 0)
    other.parent.mkdir(parents=True)
    other.touch()
    await kit.manager.container_mounts(pod, mounting(sub("directory")), {})
    assert other.is_dir()
    await kit.manager.remove(UID)


@pytest.mark.parametrize("link", ["/etc", "../../../../../../../../etc", "loop"])
async def test_links_stay_inside_the_volume(kit: Kit, link: str) -> None:
    pod = pod_with(SCRATCH)
    await kit.mount(pod)
    root = kit.volume("empty-dir", "scratch")
    (root / ("loop" if link == "loop" else "link")).symlink_to(link)
    name = "loop" if link == "loop" else "link"
    if name == "loop":
        with pytest.raises(VolumeError) as caught:
            await kit.manager.container_mounts(pod, mounting(sub(name)), {})
        assert str(caught.value) == 'failed to prepare subPath for volumeMount "scratch" of container "app"'
    else:
        (mount,) = await kit.manager.container_mounts(pod, mounting(sub(f"{name}/x")), {})
        assert Path(mount.host_path).samefile(root / "etc/x"), "links are read as if the volume were the root"
    await kit.manager.remove(UID)


_SWAPPER = """
import ctypes, sys
libc = ctypes.CDLL(None)
a, b = (name.encode() for name in sys.argv[1:])
print("ready", flush=True)
while True:
    libc.renameat2(-100, a, -100, b, 2)  # RENAME_EXCHANGE
"""


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[Callable[[Path, Path], None]]:
    """Starts a process that keeps exchanging two names as fast as possible."""
    with ExitStack() as stack:

        def start(a: Path, b: Path) -> None:
            command = [sys.executable, "-c", _SWAPPER, str(a), str(b)]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"

        yield start


async def test_swapping_links_never_lead_out_of_the_volume(
    kit: Kit, tmp_path: Path, swapping: Callable[[Path, Path], None]
) -> None:
    """CVE-2021-25741: a process in the pod replaces a directory by a link while it is being mounted."""
    outside = tmp_path / "outside"
    (outside / "dir").mkdir(parents=True)
    pod = pod_with(SCRATCH)
    await kit.mount(pod)
    root = kit.volume("empty-dir", "scratch")
    (root / "good/dir").mkdir(parents=True)
    (root / "bad").symlink_to(outside)
    (root / "up").symlink_to("../" * 20 + str(outside))
    swapping(root / "good", root / "bad")
    swapping(root / "good", root / "up")
    forbidden = {(info.st_dev, info.st_ino) for info in (outside.stat(), (outside / "dir").stat())}
    inside = 0
    for index in range(500):
        wanted = [sub("good/dir"), sub("good/dir/new"), sub("bad"), sub("up/dir")]
        try:
            found = await kit.manager.container_mounts(pod, mounting(*wanted, name=f"c{index % 7}"), {})
        except VolumeError:
            continue  # the directory was replaced in the meantime
        for mount in found:
            info = Path(mount.host_path).stat()
            assert (info.st_dev, info.st_ino) not in forbidden
            inside += 1
    assert inside > 100
    assert [str(path.relative_to(outside)) for path in outside.rglob("*")] == ["dir"], "nothing was made outside"
    await kit.manager.remove(UID)
    assert (outside / "dir").is_dir()


async def test_teardown_does_not_delete_through_a_mount(kit: Kit, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "d").mkdir(parents=True)
    (precious / "d/data").write_text("x")
    pod = pod_with({"name": "h", "hostPath": {"path": str(precious)}}, SCRATCH)
    await kit.mount(pod)
    await kit.manager.container_mounts(pod, mounting(sub("d", "h")), {})
    inside = kit.volume("empty-dir", "scratch") / "by-hand"
    inside.mkdir()
    mounts.bind(str(precious), str(inside))
    await kit.restarted().remove(UID)
    assert (precious / "d/data").read_text() == "x"
    assert kit.manager.pods_on_disk() == set()


async def test_remaining_mount_prevents_removal(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    await kit.mount(pod_with(SCRATCH))
    inside = kit.volume("empty-dir", "scratch") / "d/by-hand"
    inside.mkdir(parents=True)
    mounts.bind(str(precious), str(inside))
    with monkeypatch.context() as patch:
        patch.setattr(mounts, "unmount_all_under", lambda path, lazy=False: 0)
        with pytest.raises(VolumeError, match="is a mount point"):
            await kit.manager.remove(UID)
    assert (precious / "data").read_text() == "x"
    await kit.manager.remove(UID)
    assert (precious / "data").read_text() == "x"


async def test_a_busy_mount_is_detached(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    await kit.mount(pod_with(SECRET))
    with (kit.volume("secret", "sec") / "password").open() as held:
        await kit.manager.unmount(UID)
        assert held.read() == "hunter2"
    assert mounted(kit) == []
    assert "mount busy: detaching it" in caplog.text


async def test_huge_pages_volume_is_a_hugetlbfs_of_the_requested_size(kit: Kit) -> None:
    if not Path("/sys/kernel/mm/hugepages/hugepages-2048kB").is_dir():
        pytest.skip("the kernel has no huge pages of 2 MiB")
    container = {"name": "app", "image": "i", "resources": {"requests": {"hugepages-2Mi": "2Mi"}}}
    volume: Fields = {"name": "huge", "emptyDir": {"medium": "HugePages"}}
    await kit.mount(pod_with(volume, containers=[container]))
    mount = mount_at(kit.volume("empty-dir", "huge"))
    assert mount.fs_type == "hugetlbfs"
    assert "pagesize=2M" in mount.super_options
    await kit.manager.remove(UID)
