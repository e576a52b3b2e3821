"""Arbitrary contents of the agent's own files: each reader ends and reports the error, and the next write works."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiclient.certificates import CertificateStore
from pykubelet.kubelet.actuate.podruntime.allocation_store import AllocationStore
from pykubelet.kubelet.actuate.userns import IdRangeManager
from pykubelet.kubelet.actuate.volumes.csi import csi_layout
from pykubelet.kubelet.actuate.volumes.pod_directories import PodDirs
from pykubelet.kubelet.desired.sources.backup import Backup
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.codec import from_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.clock import VirtualClock

UID = PodUID("u1")
POD = from_builtins(
    {
        "metadata": {"name": "a", "namespace": "default", "uid": UID},
        "spec": {"hostUsers": False, "containers": [{"name": "c", "image": "i"}]},
    },
    Pod,
)
_HUGE = 1 << 40

Damage = Callable[[Path], None]


def _with(data: bytes) -> Damage:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


def _hole(path: Path) -> None:
    path.write_bytes(b"")
    os.truncate(path, _HUGE)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("none")


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _full_directory(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("kept")


def _deep(path: Path) -> None:
    path.write_bytes(b"[" * 50_000)


_OBJECTS: list[Damage] = [_hole, _loop, _dangling, _device, os.mkfifo, _full_directory, _deep]
damages = st.one_of(
    st.sampled_from(_OBJECTS),
    st.binary(max_size=200).map(_with),
    st.sampled_from([b"{}", b"[]", b"null", b'{"containers": []}', b"-----BEGIN CERTIFICATE-----", b"\xff"]).map(_with),
)


async def _allocations(home: Path, damage: Damage) -> None:
    dirs = PodDirs.at(home)
    dirs.prepare(UID)
    damage(dirs.resources(UID))
    store = AllocationStore(dirs, VirtualClock())
    await store.load([UID])
    store.set(POD)
    await store.save(UID)
    again = AllocationStore(dirs, VirtualClock())
    await again.load([UID])
    assert again.get(UID) == store.get(UID) is not None


async def _user_namespace(home: Path, damage: Damage) -> None:
    dirs = PodDirs.at(home)
    dirs.prepare(UID)
    damage(dirs.user_namespace(UID))
    users = IdRangeManager(file=dirs.user_namespace, supported=lambda _: True, clock=VirtualClock())
    await users.load([UID])
    await users.allocate(POD, "")
    again = IdRangeManager(file=dirs.user_namespace, supported=lambda _: True, clock=VirtualClock())
    await again.load([UID])
    assert again.given(POD) == users.given(POD) is not None


async def _backup(home: Path, damage: Damage) -> None:
    backup = Backup(home / "backup")
    backup.save("/a.yaml", b"old")
    (file,) = (home / "backup").iterdir()
    file.unlink()
    damage(file)
    backup.load("/a.yaml")
    backup.save("/a.yaml", b"new")
    assert backup.load("/a.yaml") == b"new"
    backup.keep_only([])
    assert backup.load("/a.yaml") is None


async def _pending_key(home: Path, damage: Damage) -> None:
    damage(home / "x.key.tmp")
    store = CertificateStore(home, "x")
    key = store.pending_key()
    assert key.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert store.pending_key() == key


async def _certificate(home: Path, damage: Damage) -> None:
    damage(home / "x-current.pem")
    assert CertificateStore(home, "x").validity() is None


async def _volume_record(home: Path, damage: Damage) -> None:
    damage(home / "vol_data.json")
    assert csi_layout._read(home) is None
    csi_layout._write(home, {"driverName": "d", "volumeHandle": "h"})
    record = csi_layout._read(home)
    assert record is not None and record.ref.handle == "h"


@pytest.mark.parametrize(
    "use",
    [_allocations, _user_namespace, _backup, _pending_key, _certificate, _volume_record],
    ids=lambda f: f.__name__[1:],
)
def test_damaged_file_of_the_agent_is_survived_and_written_again(
    use: Callable[[Path, Damage], Coroutine[None, None, None]],
) -> None:
    @given(damages)
    def each(damage: Damage) -> None:
        with tempfile.TemporaryDirectory() as home:
            asyncio.run(asyncio.wait_for(use(Path(home), damage), 30))

    each()
