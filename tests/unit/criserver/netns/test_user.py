"""User namespaces for real: pinned, joined by other namespaces, and what mounts and root file systems show in them."""

import os
import select
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.base.errors import Conflict, Invalid, Permanent, Transient
from pykubelet.base.proc import spawn
from pykubelet.criserver.container.bundle import prepare
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.netns import NamespaceKind, NamespaceSpec, PinnedNamespaces, namespace_manager, user_namespace
from pykubelet.criserver.processes import reference
from pykubelet.criserver.storage import Layers, Snapshots, VolumeRequest
from pykubelet.criserver.types import IdMap, SandboxID, UserNamespace
from pykubelet.linux.filesystems import idmap
from pykubelet.linux.filesystems.mountinfo import is_mount_point, mounts_below
from pykubelet.linux.filesystems.mounts import make_shared, tmpfs, unmount_all_under
from pykubelet.linux.namespaces import Namespace, call_in, pin_of
from pykubelet.pb import runtime_v1_pb2 as pb
from tests.unit.criserver.netns.pinned import assert_nothing_mounted, opened

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not idmap.kernel_maps_overlays(), reason="needs Linux 5.19 and user namespaces"),
]
IDS = IdMap(300000, 400000, 65536, 65536)
POD = SandboxID("pod")
KINDS = (NamespaceKind.NETWORK, NamespaceKind.UTS, NamespaceKind.IPC, NamespaceKind.USER)


@pytest.fixture
async def namespaces(tmp_path: Path) -> AsyncIterator[PinnedNamespaces]:
    pinned = opened(tmp_path)
    spec = NamespaceSpec(KINDS, "inside", {"net.ipv4.ping_group_range": "400000 465535"}, IDS)
    await pinned.make(POD, spec)
    yield pinned
    await pinned.release(POD)
    assert pinned.known() == []
    assert_nothing_mounted(tmp_path)


def _user(namespaces: PinnedNamespaces) -> UserNamespace:
    return UserNamespace(str(namespaces.path(POD, NamespaceKind.USER)), IDS)


async def test_namespaces_are_pinned_and_set_up(namespaces: PinnedNamespaces) -> None:
    for kind in KINDS:
        assert is_mount_point(namespaces.path(POD, kind))
    net, uts = str(namespaces.path(POD, NamespaceKind.NETWORK)), str(namespaces.path(POD, NamespaceKind.UTS))
    up = call_in(net, Namespace.NET, lambda: Path("/proc/thread-self/net/if_inet6").read_text())
    assert " lo" in up
    assert call_in(uts, Namespace.UTS, lambda: os.uname().nodename) == "inside"


async def test_a_second_attempt_does_not_harm_the_first(namespaces: PinnedNamespaces) -> None:
    with pytest.raises(Conflict):
        await namespaces.make(POD, NamespaceSpec(KINDS, ids=IDS))
    assert all(is_mount_point(namespaces.path(POD, kind)) for kind in KINDS)


async def test_a_bad_sysctl_leaves_nothing(tmp_path: Path) -> None:
    pinned = opened(tmp_path)
    with pytest.raises(Invalid, match="cannot be set"):
        await pinned.make(POD, NamespaceSpec(KINDS, "", {"net.ipv4.ip_forward": "nonsense"}, IDS))
    assert pinned.known() == []
    assert_nothing_mounted(tmp_path)


async def test_namespaces_of_a_process_that_has_the_pid_of_the_one_that_made_them_are_not_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed, say by the kernel without memory, and its PID used again, before they are pinned."""
    asked: list[int] = []

    def pin_of_another(pid: int, paths: Mapping[Namespace, str]) -> None:
        asked.append(pid)
        process = os.pidfd_open(pid)
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            assert select.select([process], [], [], 60)[0], "it does not end"
        finally:
            os.close(process)
        pin_of(os.getpid(), paths)

    monkeypatch.setattr(namespace_manager, "pin_of", pin_of_another)
    pinned = opened(tmp_path)
    with pytest.raises(Transient, match=r"process [0-9]+ ended before its namespaces were pinned"):
        await pinned.make(POD, NamespaceSpec((NamespaceKind.IPC, NamespaceKind.USER), ids=IDS))
    assert len(asked) == 1
    assert pinned.known() == []
    assert_nothing_mounted(tmp_path)


def test_ids_are_not_given_to_a_process_that_has_the_pid_of_the_one_in_new_namespaces() -> None:
    """A process of a container can be in a user namespace of its own, without ids."""
    with subprocess.Popen(["unshare", "--user", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdin is not None and inside.stdout is not None
        os.write(inside.stdin.fileno(), b"x")
        assert os.read(inside.stdout.fileno(), 1) == b"x"
        process, ids = reference(inside.pid), Path(f"/proc/{inside.pid}/uid_map")
        assert process is not None
        with pytest.raises(Transient, match=f"process {inside.pid} ended before its ids were mapped"):
            user_namespace._map(replace(process, started=process.started - 1), IDS)
        assert ids.read_text() == ""
        user_namespace._map(process, IDS)
        assert ids.read_text().split() == ["0", str(IDS.uid), str(IDS.uids)]
    with pytest.raises(Transient, match=f"process {inside.pid} ended"):
        user_namespace._map(process, IDS)


def _mapped(target: str, source: Path) -> pb.Mount:
    return pb.Mount(
        container_path=target,
        host_path=str(source),
        uidMappings=[pb.IDMapping(host_id=IDS.uid, length=IDS.uids)],
        gidMappings=[pb.IDMapping(host_id=IDS.gid, length=IDS.gids)],
    )


async def test_unshare_that_fails_at_once_is_an_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "unshare"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)

    async def ended(*args: Any, **settings: Any) -> Any:
        child = await spawn(*args, **settings)
        await child.wait()
        return child

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(user_namespace, "spawn", ended)
    with pytest.raises(Permanent, match=r"user\.max_user_namespaces"):
        async with user_namespace.process_in_new_namespaces(("user",), IDS):
            raise AssertionError("it has begun")


async def test_volumes_show_the_pod_s_ids_and_outlive_the_mount(namespaces: PinnedNamespaces, tmp_path: Path) -> None:
    volume, file = tmp_path / "volume", tmp_path / "file"
    volume.mkdir()
    (volume / "a").write_text("kept")
    os.chown(volume / "a", 7, 8)
    file.write_text("one")
    mounts = [
        _mapped("/v", volume),
        pb.Mount(container_path="/plain", host_path=str(volume)),
        _mapped("/f", file),
    ]
    directory = tmp_path / "mapped" / "c1"
    places = prepare.map_mounts(directory, mounts, _user(namespaces))
    assert set(places) == {"/v", "/f"}
    facts = Path(places["/v"], "a").stat()
    assert (facts.st_uid, facts.st_gid) == (IDS.uid + 7, IDS.gid + 8)
    assert Path(places["/f"]).read_text() == "one"
    for _ in range(2):
        prepare.drop_mapped(directory)
    assert not directory.exists()
    assert (volume / "a").read_text() == "kept"
    assert file.read_text() == "one"


async def test_mounts_in_a_volume_stay_when_its_mapped_mount_is_dropped(
    namespaces: PinnedNamespaces, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    make_shared(str(volume))
    (volume / "inner").mkdir()
    try:
        tmpfs(str(volume / "inner"))
        (volume / "inner" / "file").write_text("one")
        directory = tmp_path / "mapped" / "c1"
        places = prepare.map_mounts(directory, [_mapped("/v", volume)], _user(namespaces))
        assert Path(places["/v"], "inner", "file").read_text() == "one"
        (volume / "later").mkdir()
        tmpfs(str(volume / "later"))
        assert is_mount_point(Path(places["/v"], "later")), "later mounts appear in it"
        prepare.drop_mapped(directory)
        assert (volume / "inner" / "file").read_text() == "one"
    finally:
        unmount_all_under(str(tmp_path), lazy=True)


async def test_a_root_file_system_belongs_to_the_pod(namespaces: PinnedNamespaces, tmp_path: Path) -> None:
    layers = Layers(root=tmp_path / "storage", blob=lambda digest: tmp_path / digest)
    snapshots = Snapshots(tmp_path / "storage", layers)
    snapshots.load()
    image = ImageRecord("sha256:x", (), (), 0, ImageConfig(), (), "")
    root = await snapshots.prepare_rootfs(image, "c", _user(namespaces))
    assert (root.stat().st_uid, root.stat().st_gid) == (IDS.uid, IDS.gid)
    # Only the root user of the pod may enter.
    facts = root.parent.stat()
    assert (facts.st_mode & 0o777, facts.st_gid) == (0o710, IDS.gid)
    volumes = await snapshots.make_volumes("c", VolumeRequest(("/srv/data",), frozenset(), _user(namespaces)))
    for made in (root / "srv", root / "srv/data", Path(volumes["/srv/data"])):
        assert (made.stat().st_uid, made.stat().st_gid) == (IDS.uid, IDS.gid)
    assert [mount.path for mount in mounts_below(str(tmp_path / "storage"))] == [str(root)]
    await snapshots.remove_rootfs("c")
    assert not root.parent.exists()


async def test_layers_are_shown_with_the_pod_s_ids(namespaces: PinnedNamespaces, tmp_path: Path) -> None:
    layer, target = tmp_path / "layer", tmp_path / "target"
    for directory in (layer, target):
        directory.mkdir()
    (layer / "bin").write_text("x")
    idmap.mount_mapped(str(layer), str(target), _user(namespaces).path)
    try:
        assert (target / "bin").stat().st_uid == IDS.uid
        assert (layer / "bin").stat().st_uid == 0
    finally:
        unmount_all_under(str(target), lazy=True)
