"""Volumes with claims in the volume manager: lookups, errors, mounts and devices of containers."""

import asyncio
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, Transient, Unsupported
from pykubelet.kubelet.actuate.actuate_types import VolumeError
from pykubelet.kubelet.actuate.cri_messages.config_types import HostDevice
from pykubelet.kubelet.actuate.volumes import VolumeConfig, VolumeDeps, VolumeManager
from pykubelet.kubelet.actuate.volumes.attachment import AttachPatience
from pykubelet.kubelet.actuate.volumes.csi import CsiVolumes
from pykubelet.kubelet.actuate.volumes.csi.plan.csi_rules import volume_of
from pykubelet.kubelet.actuate.volumes.mount import nfs, remote_volumes
from pykubelet.kubelet.actuate.volumes.ownership import ChangeProgress
from pykubelet.kubelet.actuate.volumes.source_lookup import SourceLookup
from pykubelet.kubelet.actuate.volumes.volume_source import Source
from pykubelet.kubelet.types.ids import ref_of
from pykubelet.kubelet.types.storage import AttachLimitExceeded, VolumeSizes
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import NFSVolumeSource, PersistentVolume, Pod, PodSecurityContext, Volume
from pykubelet.testing.loop_files import files_in_loop
from tests.unit.kubelet.actuate.volumes.build import UID, Claims, Images, Kit, make_pod, mounting, pod_with, using

Fields = dict[str, Any]


@pytest.fixture
def claims() -> Claims:
    return Claims()


@pytest.fixture
def kit(tmp_path: Path, claims: Claims) -> Kit:
    made = Kit(tmp_path / "root")
    deps = VolumeDeps(images=Images(), claims=claims, telemetry=made.telemetry)
    made.manager = VolumeManager(dirs=made.dirs, deps=deps)
    return made


async def test_host_path_behind_a_claim_is_mounted(kit: Kit, claims: Claims, tmp_path: Path) -> None:
    claims.specs["c"] = {"hostPath": {"path": str(tmp_path), "type": "Directory"}}
    pod = using("c", readOnly=True)
    await kit.mount(pod)
    await kit.mount(pod)
    assert claims.reads == 1  # what is set up is not asked for again
    (mount,) = await kit.manager.container_mounts(pod, mounting({"name": "data", "mountPath": "/d"}), {})
    assert mount.host_path == str(tmp_path) and mount.read_only


async def test_missing_claim_is_an_error_until_it_exists(kit: Kit, claims: Claims, tmp_path: Path) -> None:
    pod = using("c")
    with pytest.raises(VolumeError) as caught:
        await kit.mount(pod)
    assert str(caught.value) == (
        "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], "
        'failed to process volumes=[data]: error processing PVC shop/c: persistentvolumeclaims "c" not found'
    )
    claims.specs["c"] = {"hostPath": {"path": str(tmp_path)}}
    await kit.mount(pod)


async def test_claim_that_no_container_mounts_is_not_read(kit: Kit, claims: Claims) -> None:
    await kit.mount(pod_with({"name": "data", "persistentVolumeClaim": {"claimName": "c"}}))
    assert claims.reads == 0


async def test_local_volume_with_missing_directory_fails(kit: Kit, claims: Claims, tmp_path: Path) -> None:
    claims.specs["c"] = {"local": {"path": str(tmp_path / "gone")}}
    with pytest.raises(VolumeError, match=r'failed for volume "pv-c" \(of claim shop/c\) : .*gone'):
        await kit.mount(using("c"))
    (tmp_path / "gone").touch()
    with pytest.raises(VolumeError, match="only directory and block device are supported"):
        await kit.mount(using("c"))
    claims.specs["d"] = {"local": {"path": "/a/../b"}}
    with pytest.raises(VolumeError, match=r"must not contain '\.\.'"):
        await kit.mount(using("d"))
    claims.specs["e"] = {"local": {"path": "/a\0b"}}
    with pytest.raises(VolumeError, match=r"spec\.local\.path contains NUL"):
        await kit.mount(using("e"))


async def test_local_volume_behind_a_link_is_bound_by_its_target(
    kit: Kit, claims: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[str] = []
    monkeypatch.setattr("pykubelet.linux.filesystems.mounts.bind", lambda source, *_, **__: bound.append(source))
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    claims.specs["c"] = {"local": {"path": str(tmp_path / "link")}}
    await kit.mount(using("c"))
    assert bound == [str(tmp_path / "disk")]


async def test_local_volume_that_is_set_up_is_not_looked_at_again(
    kit: Kit, claims: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file system may hang, and the pod or the event loop with it."""
    monkeypatch.setattr("pykubelet.linux.filesystems.mounts.bind", lambda *_, **__: None)
    (tmp_path / "disk").mkdir()
    claims.specs["c"] = {"local": {"path": str(tmp_path / "disk")}}
    pod = using("c")
    await kit.mount(pod)

    def no_call(*_: object, **__: object) -> None:
        raise AssertionError("a blocking call was made")

    monkeypatch.setattr(blocking, "call", no_call)
    with files_in_loop(kit.dirs.root) as seen:
        await kit.mount(pod)
    assert seen == []


async def test_local_volume_whose_ownership_takes_longer_than_the_deadline_is_set_up(
    kit: Kit, claims: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "disk").mkdir()
    claims.specs["c"] = {"local": {"path": str(tmp_path / "disk")}}
    changed: list[str] = []

    @contextmanager
    def bound(source: str) -> Iterator[int]:
        fd = os.open(source, os.O_PATH)
        yield fd
        os.close(fd)

    def slow(path: str, group: int, policy: str, *, progress: ChangeProgress) -> None:
        threading.Event().wait(2 * kit.config.deadline)
        changed.append(os.path.realpath(path))

    monkeypatch.setattr("pykubelet.kubelet.actuate.volumes.kinds.local.give_to_group", slow)
    monkeypatch.setattr("pykubelet.linux.filesystems.mounts.bind", lambda *_, **__: None)
    monkeypatch.setattr("pykubelet.linux.filesystems.mounts.detached_bind", bound)
    deps = VolumeDeps(images=Images(), claims=claims, telemetry=kit.telemetry)
    kit.config = VolumeConfig(deadline=0.5)
    kit.manager = VolumeManager(dirs=kit.dirs, deps=deps, config=kit.config)
    pod = using("c")
    pod = replace(pod, spec=replace(pod.spec, security_context=PodSecurityContext(fs_group=os.getgid())))
    await kit.mount(pod)
    assert changed == [str(tmp_path / "disk")]


async def test_local_device_that_is_no_block_device_is_refused(kit: Kit, claims: Claims) -> None:
    claims.specs["c"] = {"local": {"path": "/dev/null"}, "volumeMode": "Block"}
    volume: Fields = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    pod = pod_with(volume, containers=[{"name": "app", "volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}])
    with pytest.raises(VolumeError, match="/dev/null is not a block device"):
        await kit.mount(pod)
    (event,) = kit.events.seen
    assert event[0] == "FailedMapVolume"
    assert event[1].startswith('MapVolume.SetUpDevice failed for volume "pv-c"')


async def test_in_tree_volumes_are_migrated_to_csi(claims: Claims) -> None:
    claims.specs["c"] = {"gcePersistentDisk": {"pdName": "d"}}
    data: Fields = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    disk: Fields = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    wrong: Fields = {"name": "wrong", "azureDisk": {"kind": "Shared"}}
    unused: Fields = {"name": "unused", "cinder": {"volumeID": "x"}}
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "disk", "wrong")]
    pod = pod_with(data, disk, wrong, unused, containers=[{"name": "app", "volumeMounts": mounts}])
    found, problems = await SourceLookup(claims).find(pod, ())
    assert {name: (source.kind, source.name, source.migrated) for name, source in found.items()} == {
        "data": ("csi", "pv-c", True),
        "disk": ("csi", "disk", True),
    }
    assert problems == {
        "wrong": "failed to translate volume wrong from in-tree to CSI: kind(Shared) is not supported in csi migration"
    }
    volume = volume_of(pod, found["disk"])
    assert (volume.ref.driver, volume.ref.handle, volume.ephemeral) == ("ebs.csi.aws.com", "vol-1", False)


async def test_without_an_api_server_there_are_no_claims(tmp_path: Path) -> None:
    kit = Kit(tmp_path / "root")
    with pytest.raises(VolumeError, match="error processing PVC shop/c: a claim needs an API server"):
        await kit.mount(using("c"))


def _source(options: tuple[str, ...] | None = None, read_only: bool = False, **fields: Any) -> Source:
    volume = Volume(name="v", nfs=NFSVolumeSource(**{"server": "files", "path": "/export", **fields}))
    spec: Fields = {"mountOptions": list(options or ())}
    pv = from_builtins({"metadata": {"name": "v"}, "spec": spec}, PersistentVolume) if options is not None else None
    return Source(kind="nfs", name="v", volume=volume, pv=pv, read_only=read_only)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (_source(), "files:/export /t"),
        (_source(server="::1"), "[::1]:/export /t"),
        (_source(("nfsvers=4.1", "hard")), "files:/export /t -o nfsvers=4.1,hard"),
        (_source(("ro",), read_only=True), "files:/export /t -o ro"),
    ],
)
def test_nfs_mount_command_has_server_path_and_options(source: Source, expected: str) -> None:
    assert nfs.mount_command(source, Path("/t")) == ("mount.nfs", *expected.split())


def test_an_inline_nfs_volume_can_be_read_only() -> None:
    volume = Volume(name="v", nfs=NFSVolumeSource(server="files", path="/e", read_only=True))
    command = nfs.mount_command(Source(kind="nfs", name="v", volume=volume), Path("/t"))
    assert command[-2:] == ("-o", "ro")


@pytest.mark.parametrize("fields", [{"server": ""}, {"path": "export"}])
def test_invalid_nfs_volume_raises(fields: Fields) -> None:
    with pytest.raises(Invalid):
        nfs.mount_command(_source(**fields), Path("/t"))


async def test_missing_mount_nfs_error_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="apt-get install nfs-common"):
        await nfs.mount(_source(), tmp_path, 5.0, str(tmp_path))


async def test_mount_nfs_is_run(kit: Kit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "bin" / "mount.nfs"
    helper.parent.mkdir()
    helper.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$1" = files:/export ] || {{ echo no >&2; exit 32; }}\n'
    )
    helper.chmod(0o755)
    monkeypatch.setattr(nfs.mount, "__defaults__", (str(helper.parent),))
    container = {"name": "app", "volumeMounts": [{"name": "v", "mountPath": "/d"}]}
    await kit.mount(pod_with({"name": "v", "nfs": {"server": "files", "path": "/export"}}, containers=[container]))
    target = kit.dirs.root / "pods" / UID / "volumes/kubernetes.io~nfs/v"
    assert (tmp_path / "asked").read_text() == f"files:/export {target}\n" and target.is_dir()
    other = make_pod(
        {"volumes": [{"name": "v", "nfs": {"server": "other", "path": "/export"}}], "containers": [container]},
        uid="u-2",
    )
    with pytest.raises(VolumeError, match=r'failed for volume "v" : .*no'):
        await kit.mount(other)


async def test_devices_and_groups_of_containers(kit: Kit, claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.kubelet.actuate.volumes.kinds.local._check_device", lambda path: None)
    claims.specs["c"] = {"local": {"path": "/dev/sdx"}, "volumeMode": "Block"}
    claims.annotations["pv.beta.kubernetes.io/gid"] = "1234"
    volume: Fields = {"name": "data", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}}
    app = {"name": "app", "volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}
    pod = pod_with(volume, containers=[app])
    with pytest.raises(VolumeError, match='cannot find volume "data" to pass into container "app"'):
        kit.manager.container_devices(pod, pod.spec.containers[0])
    assert kit.manager.extra_groups(pod) == ()
    await kit.mount(pod)
    assert kit.manager.container_devices(pod, pod.spec.containers[0]) == (HostDevice("/dev/sdx", "/dev/x", "r"),)
    assert kit.manager.extra_groups(pod) == (1234,)


async def test_volume_sizes_name_claims_that_are_mounted(kit: Kit, claims: Claims, tmp_path: Path) -> None:
    claims.specs["c"] = {"local": {"path": str(tmp_path)}}
    pod = using("c")
    assert await kit.manager.sizes(pod) == {}
    await kit.mount(pod)
    found = await kit.manager.sizes(pod)
    assert found["data"].claim == "shop/c" and (found["data"].capacity or 0) > 0
    await kit.manager.unmount(ref_of(pod).uid)
    (tmp_path / "away").mkdir()
    claims.specs["c"] = {"hostPath": {"path": str(tmp_path / "nowhere")}}
    other = make_pod({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}, uid="u-3")
    assert await kit.manager.sizes(other) == {}


@pytest.mark.parametrize("node", ["node-1", "node-2"])
async def test_volume_of_another_node_is_refused(claims: Claims, node: str) -> None:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    claims.specs["data"] = {"local": {"path": "/data"}, "nodeAffinity": affinity}
    found, problems = await SourceLookup(claims).find(using("data"), ())
    if node == "node-1":
        assert problems == {} and len(found) == 1
    else:
        assert found == {}
        (problem,) = problems.values()
        text = 'MountVolume.NodeAffinity check failed for volume "pv-data": no matching NodeSelectorTerms'
        assert problem.endswith(text)


async def test_sizes_of_host_paths_are_unknown_and_devices_have_a_capacity(
    kit: Kit, claims: Claims, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stat, "S_ISBLK", stat.S_ISREG)
    claims.specs["c"] = {"hostPath": {"path": str(tmp_path)}}
    pod = using("c")
    await kit.mount(pod)
    assert await kit.manager.sizes(pod) == {}
    (tmp_path / "device").write_bytes(b"x" * 4096)
    claims.specs["d"] = {"local": {"path": str(tmp_path / "device")}, "volumeMode": "Block"}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}
    app = {"name": "app", "volumeDevices": [{"name": "data", "devicePath": "/dev/x"}]}
    other = make_pod({"volumes": [volume], "containers": [app]}, uid="u-2")
    await kit.mount(other)
    assert await kit.manager.sizes(other) == {"data": VolumeSizes("shop/d", 4096)}
    (tmp_path / "device").unlink()
    assert await kit.manager.sizes(other) == {}


class UnattachedVolumes:
    """CSI volumes of which some are not attached, or have not been for now; by volume handle."""

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}
        self.detached: set[str] = set()

    def is_due(self, pod: Pod, source: Source) -> bool:
        return False

    async def set_up(self, pod: Pod, source: Source, patience: AttachPatience) -> None:
        handle = volume_of(pod, source).ref.handle
        if (error := self.errors.get(handle)) is not None:
            raise error
        if handle in self.detached:
            try:
                async with patience.limit():
                    await asyncio.Event().wait()
            except TimeoutError as error:
                raise AttachLimitExceeded(f"{handle} is beyond the limit") from error


def _of_claims(*names: str) -> Pod:
    volumes: list[Fields] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return pod_with(*volumes, containers=[{"name": "app", "volumeMounts": mounts}])


@pytest.mark.parametrize("fails", ["look-up", "set-up", "set-up of a file volume"])
async def test_volume_that_failed_is_not_kept_waiting_by_one_that_is_not_attached(
    kit: Kit, claims: Claims, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """It is tried again in the next sync only; the attachment may take minutes."""
    monkeypatch.setattr(remote_volumes, "AttachPatience", lambda: AttachPatience(3600.0, 0.05))
    csi = UnattachedVolumes()
    deps = VolumeDeps(images=Images(), claims=claims, csi=cast(CsiVolumes, csi), telemetry=kit.telemetry)
    kit.manager = VolumeManager(dirs=kit.dirs, deps=deps)
    claims.specs = {name: {"csi": {"driver": "d", "volumeHandle": name}} for name in ("a", "b", "c")}
    csi.detached = {"a", "c"}
    if fails == "look-up":
        del claims.specs["b"]
    elif fails == "set-up":
        csi.errors["b"] = Transient("no driver")
    else:
        claims.specs["b"] = {"local": {"path": "/nowhere/at/all"}}
    async with asyncio.timeout(30):
        with pytest.raises(AttachLimitExceeded, match="a is beyond the limit; c is beyond the limit"):
            await kit.mount(_of_claims("a", "b", "c"))


async def test_volumes_wait_for_their_attachment_while_none_fails(
    kit: Kit, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_volumes, "AttachPatience", lambda: AttachPatience(0.05, 3600.0))
    csi = UnattachedVolumes()
    deps = VolumeDeps(images=Images(), claims=claims, csi=cast(CsiVolumes, csi), telemetry=kit.telemetry)
    kit.manager = VolumeManager(dirs=kit.dirs, deps=deps)
    claims.specs = {name: {"csi": {"driver": "d", "volumeHandle": name}} for name in ("a", "b")}
    csi.detached = {"a"}
    with pytest.raises(AttachLimitExceeded):
        await kit.mount(_of_claims("a", "b"))


async def test_volumes_that_cannot_be_attached_reject_the_pod_whatever_else_fails(kit: Kit, claims: Claims) -> None:
    csi = UnattachedVolumes()
    deps = VolumeDeps(images=Images(), claims=claims, csi=cast(CsiVolumes, csi), telemetry=kit.telemetry)
    kit.manager = VolumeManager(dirs=kit.dirs, deps=deps)
    claims.specs = {name: {"csi": {"driver": "d", "volumeHandle": name}} for name in ("b", "a", "c")}
    pod = _of_claims("b", "a", "c", "gone")
    csi.errors = {"a": Transient("not staged")}
    with pytest.raises(VolumeError, match="not staged"):
        await kit.mount(pod)
    csi.errors["b"] = AttachLimitExceeded("limit is 9")
    restarted = VolumeManager(dirs=kit.dirs, deps=deps)
    with pytest.raises(AttachLimitExceeded) as caught:
        await restarted.mount(pod, kit.context)
    assert str(caught.value) == (
        "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[a b gone], "
        "unattached volumes=[b], failed to process volumes=[gone]: limit is 9"
    )
