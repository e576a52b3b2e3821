"""The volume manager, as far as no mounts are needed (those: tests/integration/test_volumes.py)."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from pykubelet.base.concurrency import blocking
from pykubelet.base.units import KIB
from pykubelet.kubelet.actuate.actuate_types import HostMount, ImageError, Propagation, VolumeError
from pykubelet.kubelet.actuate.cri_messages.config_types import EnvFile, EnvFileValues
from pykubelet.kubelet.actuate.volumes import VolumeConfig, setup_jobs
from pykubelet.kubelet.actuate.volumes.kinds import host_path as host_path_module
from pykubelet.kubelet.actuate.volumes.mount import teardown
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.linux.filesystems.removal import remove_tree
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.loop_files import files_in_loop
from pykubelet.testing.wait import until
from tests.unit.kubelet.actuate.volumes.build import UID, Fields, Kit, make_pod, mounting, pod_with

EMPTY: Fields = {"name": "scratch", "emptyDir": {}}
CONFIG: Fields = {"name": "cfg", "configMap": {"name": "cm"}}


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    kit = Kit(tmp_path / "root")
    kit.objects.config_maps["cm"] = ConfigMap(data={"key": "one"})
    return kit


async def test_a_pod_without_volumes_gets_its_directories(kit: Kit) -> None:
    await kit.mount(make_pod())
    assert kit.dirs.of_volumes.all(UID).is_dir()
    assert kit.manager.pods_on_disk() == {UID}


async def test_volumes_are_measured_and_counted(kit: Kit) -> None:
    pod = pod_with(EMPTY, {"name": "lost", "configMap": {"name": "none"}})
    with pytest.raises(VolumeError):
        await kit.mount(pod)
    empty, config = "kubernetes.io/empty-dir", "kubernetes.io/configmap"
    assert kit.meter.lines == [f"volume_mount {empty} done", f"mounted {empty} after 0"]
    desired, actual = "desired_state_of_world", "actual_state_of_world"
    assert kit.manager.counts() == {(empty, desired): 1, (empty, actual): 1, (config, desired): 1}
    kit.meter.lines.clear()
    kit.objects.config_maps["none"] = ConfigMap()
    assert isinstance(kit.clock, VirtualClock)
    await kit.clock.advance(3)
    await kit.mount(pod)
    await kit.mount(pod)
    assert kit.meter.lines == [f"volume_mount {config} done", f"mounted {config} after 3"]
    kit.meter.lines.clear()
    await kit.manager.unmount(UID)
    assert sorted(kit.meter.lines) == [f"volume_unmount {config} done", f"volume_unmount {empty} done"]
    assert kit.manager.counts() == {}


async def test_an_empty_dir_is_open_to_all(kit: Kit) -> None:
    await kit.mount(pod_with(EMPTY))
    assert stat.S_IMODE(kit.volume("empty-dir", "scratch").stat().st_mode) == 0o777


async def test_a_volume_without_source_is_an_empty_dir(kit: Kit) -> None:
    await kit.mount(pod_with({"name": "v"}))
    assert kit.volume("empty-dir", "v").is_dir()


async def test_an_empty_dir_belongs_to_the_fs_group(kit: Kit) -> None:
    await kit.mount(pod_with(EMPTY, securityContext={"fsGroup": os.getgid()}))
    assert stat.S_IMODE(kit.volume("empty-dir", "scratch").stat().st_mode) == 0o2777


async def test_content_and_mode_of_an_empty_dir_survive_remount(kit: Kit) -> None:
    pod = pod_with(EMPTY)
    await kit.mount(pod)
    path = kit.volume("empty-dir", "scratch")
    path.chmod(0o700)
    (path / "data").write_text("x")
    for manager in (kit.manager, kit.restarted()):
        await manager.mount(pod, kit.context)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert (path / "data").read_text() == "x"


async def test_an_unfinished_empty_dir_is_finished(kit: Kit) -> None:
    path = kit.volume("empty-dir", "scratch")
    (path.parent / ".scratch.new").mkdir(parents=True, mode=0o700)
    await kit.mount(pod_with(EMPTY))
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    assert [entry.name for entry in path.parent.iterdir()] == ["scratch"]


async def test_config_map_volume_is_updated(kit: Kit) -> None:
    pod = pod_with(CONFIG)
    await kit.mount(pod)
    path = kit.volume("configmap", "cfg")
    assert (path / "key").read_text() == "one"
    kit.objects.config_maps["cm"] = ConfigMap(data={"other": "two"})
    await kit.mount(pod)
    assert (path / "other").read_text() == "two"
    assert not (path / "key").is_symlink()


async def test_event_loop_uses_no_file_of_volumes(kit: Kit) -> None:
    """The directories of pods are on a disk that may hang."""
    pod = pod_with(CONFIG, EMPTY, {"name": "host", "hostPath": {"path": "/dev/null", "type": "CharDevice"}})
    with files_in_loop(kit.dirs.root) as seen:
        await kit.mount(pod)
        await kit.mount(pod)
        kit.objects.config_maps["cm"] = ConfigMap(data={"key": "two"})
        await kit.mount(pod)
        await kit.manager.unmount(UID)
    assert seen == []


async def test_volumes_of_others_are_not_looked_at_again(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hang, and the pod with them."""
    pod = pod_with({"name": "host", "hostPath": {"path": "/dev/null", "type": "CharDevice"}})
    await kit.mount(pod)

    def no_call(*_: object, **__: object) -> None:
        raise AssertionError("a blocking call was made")

    monkeypatch.setattr(blocking, "call", no_call)
    await kit.mount(pod)


async def test_volume_that_hangs_for_one_container_keeps_none_of_the_others_from_its_restart(kit: Kit) -> None:
    """A subPath on a file server that does not respond; each pod has a token that is looked at in each sync."""
    pod = pod_with(EMPTY, {"name": "server", "hostPath": {"path": "/srv"}})
    await kit.mount(pod)
    hangs, answers = threading.Event(), threading.Event()

    def bind() -> None:
        hangs.set()
        answers.wait()

    binding = asyncio.create_task(kit.manager._block(UID, bind))
    try:
        await until(hangs.is_set)
        synced = asyncio.create_task(kit.mount(pod))
        await until(synced.done)
        await synced
    finally:
        answers.set()
        await binding


async def test_pod_of_many_volumes_leaves_other_tasks_their_turn(kit: Kit) -> None:
    """A pod of 1 MiB can have 30,000, each of 1 MiB; the files are computed in the event loop."""
    volumes: list[Fields] = [{"name": f"v{number}", "configMap": {"name": "cm"}} for number in range(200)]
    pod = pod_with(*volumes)
    await kit.mount(pod)
    steps = 0

    async def other() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await kit.mount(pod)
    task.cancel()
    assert steps >= 10


async def test_files_of_all_volumes_of_a_pod_are_limited(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may name a ConfigMap of its own, or the same: 20,000 of 1 MiB in a pod of 1 MiB."""
    monkeypatch.setattr(setup_jobs, "_MAX_OF_POD", 1 << 20)
    kit.objects.config_maps["cm"] = ConfigMap(data={"key": "x" * (1 << 18)})
    kit.objects.config_maps["last"] = ConfigMap(data={"key": "x" * (1 << 10)})
    names = [f"v{number}" for number in range(5)]
    volumes: list[Fields] = [{"name": name, "configMap": {"name": "cm"}} for name in names]
    pod = pod_with(*volumes, {"name": "small", "configMap": {"name": "last"}})
    with pytest.raises(VolumeError, match="the files of all volumes of the pod have more than 1 MiB") as refused:
        await kit.mount(pod)
    assert refused.value.volume == "v4" and "small" in str(refused.value)
    assert not kit.volume("configmap", "v4").exists() and kit.volume("configmap", "v3").exists()
    # What is written counts, not what was asked for; a volume that cannot grow keeps its files.
    kit.objects.config_maps["cm"] = ConfigMap(data={"key": "y" * 10})
    await kit.mount(pod)
    assert [(kit.volume("configmap", name) / "key").read_text() for name in names] == ["y" * 10] * 5
    assert not kit.events.seen
    kit.objects.config_maps["cm"] = ConfigMap(data={"key": "z" * (1 << 18)})
    await kit.mount(pod)
    assert [(kit.volume("configmap", name) / "key").stat().st_size for name in names] == [1 << 18] * 3 + [10] * 2
    assert len(kit.events.seen) == 2


async def test_removed_volume_is_set_up_again(kit: Kit) -> None:
    pod = pod_with(CONFIG)
    await kit.mount(pod)
    path = kit.volume("configmap", "cfg")
    path.rename(path.parent / "elsewhere")
    await kit.mount(pod)
    assert (path / "key").read_text() == "one"


async def test_missing_objects_are_named(kit: Kit) -> None:
    pod = pod_with({"name": "a", "configMap": {"name": "nope"}}, {"name": "b", "secret": {"secretName": "nope"}}, EMPTY)
    with pytest.raises(VolumeError) as caught:
        await kit.mount(pod)
    assert str(caught.value) == (
        'MountVolume.SetUp failed for volume "a" : configmap "nope" not found; '
        'MountVolume.SetUp failed for volume "b" : secret "nope" not found'
    )
    assert caught.value.volume == "a"
    assert kit.volume("empty-dir", "scratch").is_dir(), "the others are set up all the same"


async def test_an_optional_object_may_come_later(kit: Kit) -> None:
    pod = pod_with({"name": "a", "configMap": {"name": "late", "optional": True}})
    await kit.mount(pod)
    path = kit.volume("configmap", "a")
    assert [e.name for e in path.iterdir() if not e.name.startswith("..")] == []
    kit.objects.config_maps["late"] = ConfigMap(data={"k": "v"})
    await kit.mount(pod)
    assert (path / "k").read_text() == "v"


async def test_a_volume_that_cannot_be_refreshed_keeps_its_content(kit: Kit) -> None:
    pod = pod_with(CONFIG)
    await kit.mount(pod)
    del kit.objects.config_maps["cm"]
    await kit.mount(pod)
    assert (kit.volume("configmap", "cfg") / "key").read_text() == "one"
    message = 'MountVolume.SetUp failed for volume "cfg" : configmap "cm" not found'
    assert kit.events.seen == [("FailedMount", message)]


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        (
            {"iscsi": {"lun": 1, "iqn": "i", "targetPortal": "t"}},
            "volumes of kind iscsi are not supported by this agent",
        ),
        ({"nfs": {"server": "s", "path": "relative"}}, "path 'relative': set both, the path absolute"),
        ({"persistentVolumeClaim": {"claimName": "c"}}, "error processing PVC shop/c: a claim needs an API server"),
        ({"csi": {"driver": "d"}}, "CSI volumes need the CSIDriver objects of an API server"),
        ({"gitRepo": {"repository": "r"}}, "CVE-2024-10220"),
        ({"hostPath": {"path": "/a/../b"}}, "invalid HostPath `/a/../b`: must not contain '..'"),
        (
            {"hostPath": {"path": "/a\0b", "type": "Directory"}},
            "hostPath.path contains NUL, and the kernel takes no such",
        ),
        ({"hostPath": {"path": "/a" * 5000}}, "invalid HostPath: hostPath.path has 10000 bytes, and the kernel takes"),
        ({"hostPath": {"path": ""}}, "must not be empty"),
        ({"hostPath": {"path": "/dev/null", "type": "File"}}, "hostPath type check failed: /dev/null is not a file"),
        ({"emptyDir": {"medium": "Tape"}}, 'unknown storage medium "Tape"'),
        ({"configMap": {"name": "cm", "items": [{"key": "key", "path": "../x"}]}}, "must not contain '..'"),
        ({"image": {"reference": ""}}, "invalid image volume: a reference is required"),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
            "a serviceAccountToken needs an API server",
        ),
        (
            {"projected": {"sources": [{"podCertificate": {"keyType": "x"}}, {}]}},
            "a podCertificate needs an API server",
        ),
    ],
)
async def test_invalid_volume_error_has_the_reason(kit: Kit, volume: Fields, text: str) -> None:
    with pytest.raises(VolumeError) as caught:
        await kit.mount(pod_with({"name": "v", **volume}, containers=[{"volumeMounts": [{"name": "v"}]}]))
    begins = ('MountVolume.SetUp failed for volume "v" : ', "Unable to attach or mount volumes: unmounted volumes=[v]")
    assert str(caught.value).startswith(begins)
    assert text in str(caught.value)


async def test_a_hostile_uid_is_refused(kit: Kit) -> None:
    with pytest.raises(VolumeError, match="invalid path component"):
        await kit.mount(make_pod(uid="../../etc"))


async def test_hung_host_path_delays_only_its_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(tmp_path / "root", config=VolumeConfig(deadline=1.0))
    dead = threading.Event()
    real = host_path_module._mode_of

    def mode_of(path: str) -> int | None:
        if path == "/dead":
            dead.wait(30)
        return real(path)

    monkeypatch.setattr(host_path_module, "_mode_of", mode_of)
    try:
        with pytest.raises(
            VolumeError, match=r'volume "v" : set_up_volumes for pod/u-1/volumes has not ended within 1 s'
        ):
            await kit.mount(pod_with({"name": "v", "hostPath": {"path": "/dead", "type": "Directory"}}))
        await kit.manager.mount(make_pod({"volumes": [EMPTY]}, uid="u-2"), kit.context)
        with pytest.raises(VolumeError):
            await kit.manager.unmount(UID)
    finally:
        dead.set()
    await kit.manager.unmount(UID)


async def test_large_empty_dir_that_is_deleted_delays_only_its_pod(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pod waits for the deletion: only then is its space free, and the pod reported as ended."""
    begun, deleted = threading.Event(), threading.Event()
    real = remove_tree

    def remove(path: Path) -> None:
        if "u-1" in path.parts and path.name == "volumes":
            begun.set()
            assert deleted.wait(60)
        real(path)

    monkeypatch.setattr(teardown, "remove_tree", remove)
    pods = {uid: make_pod({"volumes": [EMPTY]}, uid=uid) for uid in ("u-1", "u-2")}
    for made in pods.values():
        await kit.manager.mount(made, kit.context)
    first = asyncio.create_task(kit.manager.unmount(PodUID("u-1")), name="first")
    await until(begun.is_set)
    await kit.manager.unmount(PodUID("u-2"))
    await kit.manager.mount(make_pod({"volumes": [EMPTY]}, uid="u-3"), kit.context)
    assert not first.done()
    deleted.set()
    await first


async def test_mounts_of_a_container_lead_to_its_volumes(kit: Kit) -> None:
    volumes: list[Fields] = [EMPTY, CONFIG, {"name": "host", "hostPath": {"path": "/srv/x/"}}]
    pod = pod_with(*volumes)
    await kit.mount(pod)
    container = mounting(
        {"name": "cfg", "mountPath": "/etc/cfg"},
        {"name": "scratch", "mountPath": "tmp", "mountPropagation": "HostToContainer"},
        {"name": "host", "mountPath": "/h", "readOnly": True},
    )
    assert await kit.manager.container_mounts(pod, container, {}) == (
        HostMount("/etc/cfg", str(kit.volume("configmap", "cfg")), read_only=True, selinux_relabel=True, name="cfg"),
        HostMount(
            "/tmp",
            str(kit.volume("empty-dir", "scratch")),
            propagation=Propagation.HOST_TO_CONTAINER,
            selinux_relabel=True,
            name="scratch",
        ),
        HostMount("/h", "/srv/x", read_only=True, name="host"),
    )


async def test_recursive_read_only_follows_the_runtime(kit: Kit) -> None:
    pod = pod_with(EMPTY)
    await kit.mount(pod)
    wanted: Fields = {"name": "scratch", "mountPath": "/m", "readOnly": True, "recursiveReadOnly": "IfPossible"}
    for supported in (False, True):
        kit.recursive_read_only = supported
        (mount,) = await kit.manager.container_mounts(pod, mounting(wanted), {})
        assert mount.recursive_read_only is supported


async def test_image_volumes_are_mounted_by_the_runtime(kit: Kit) -> None:
    pod = pod_with({"name": "data", "image": {"reference": "data:1", "pullPolicy": "Always"}})
    await kit.mount(pod)
    wanted: Fields = {"name": "data", "mountPath": "/data", "subPath": "sub/dir"}
    assert await kit.manager.container_mounts(pod, mounting(wanted), {}) == (
        HostMount(
            "/data",
            read_only=True,
            name="data",
            image="sha256:data:1:Always",
            user_specified_image="data:1",
            image_sub_path="sub/dir",
        ),
    )


async def test_unavailable_image_volume_raises_image_error(kit: Kit) -> None:
    pod = pod_with({"name": "data", "image": {"reference": "gone"}})
    await kit.mount(pod)
    with pytest.raises(ImageError):
        await kit.manager.container_mounts(pod, mounting({"name": "data", "mountPath": "/data"}), {})


@pytest.mark.parametrize(
    ("mount", "text"),
    [
        ({"name": "other", "mountPath": "/x"}, 'cannot find volume "other" to mount into container "app"'),
        ({"name": "scratch", "mountPath": "/x", "subPath": "../y"}, "unable to provision SubPath `../y`"),
        ({"name": "scratch", "mountPath": "/x", "subPathExpr": "$(NO)"}, "missing value for NO"),
        ({"name": "scratch", "mountPath": "/x", "mountPropagation": "Up"}, "invalid MountPropagation mode"),
    ],
)
async def test_bad_mounts_are_refused(kit: Kit, mount: Fields, text: str) -> None:
    pod = pod_with(EMPTY)
    await kit.mount(pod)
    with pytest.raises(VolumeError, match="^" + text.split("`")[0].replace("(", r"\(")):
        await kit.manager.container_mounts(pod, mounting(mount), {})


async def test_a_volume_must_be_set_up_before_it_is_mounted(kit: Kit) -> None:
    with pytest.raises(VolumeError, match='cannot find volume "scratch"'):
        await kit.manager.container_mounts(pod_with(EMPTY), mounting({"name": "scratch", "mountPath": "/x"}), {})


async def test_environment_files_are_read_if_small_and_regular(kit: Kit, tmp_path: Path) -> None:
    pod = pod_with(EMPTY)
    await kit.mount(pod)
    root = kit.volume("empty-dir", "scratch")
    (root / "env").write_bytes(b"A='\xff'\n")
    (root / "big").write_bytes(b"x" * 65537)
    (tmp_path / "secret").write_text("host")
    (root / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(root / "fifo")
    names = ("env", "big", "link", "fifo", "none", "../../../../secret")
    asked = {EnvFile("scratch", name): {"A"} for name in names} | {EnvFile("other", "env"): {"A"}}
    assert await kit.manager.read_files(pod, asked) == {EnvFile("scratch", "env"): EnvFileValues({"A": "\udcff"})}


async def test_environment_files_of_a_container_are_read_up_to_a_size_together(kit: Kit) -> None:
    pod = pod_with(EMPTY)
    await kit.mount(pod)
    names = [f"file-{number}" for number in range(40)]
    for name in names:
        (kit.volume("empty-dir", "scratch") / name).write_bytes(b"A='1'\n#".ljust(64 * KIB, b"x"))
    found = await kit.manager.read_files(pod, {EnvFile("scratch", name): {"A"} for name in names})
    assert [file.path for file in found] == names[:16]


async def test_unmount_keeps_termination_logs_and_remove_takes_all(kit: Kit) -> None:
    pod = pod_with(EMPTY, CONFIG)
    await kit.mount(pod)
    log = kit.dirs.termination_log(UID, "app")
    kit.dirs.etc_hosts(UID).write_text("x")
    manager = kit.restarted()
    await manager.unmount(UID)
    assert log.exists()
    assert not kit.dirs.of_volumes.all(UID).exists()
    await manager.remove(UID)
    assert manager.pods_on_disk() == set()
    await manager.remove(UID)
    await manager.unmount(UID)


async def test_a_pod_may_be_set_up_again_after_unmount(kit: Kit) -> None:
    pod = pod_with(EMPTY)
    await kit.mount(pod)
    await kit.manager.unmount(UID)
    await kit.mount(pod)
    assert kit.volume("empty-dir", "scratch").is_dir()


async def test_pods_of_an_earlier_agent_are_listed_and_removed(kit: Kit) -> None:
    await kit.mount(pod_with(EMPTY))
    (kit.dirs.pods / "u-9/volumes/kubernetes.io~empty-dir/x").mkdir(parents=True)
    manager = kit.restarted()
    assert manager.pods_on_disk() == {UID, PodUID("u-9")}
    await manager.remove(PodUID("u-9"))
    assert manager.pods_on_disk() == {UID}


async def test_host_paths_are_never_removed(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/data").write_text("x")
    pod = pod_with({"name": "h", "hostPath": {"path": str(tmp_path / "precious"), "type": "Directory"}})
    await kit.mount(pod)
    await kit.manager.remove(UID)
    assert (tmp_path / "precious/data").read_text() == "x"
