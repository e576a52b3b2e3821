"""Files that cannot be read for a moment at a start are read again: nothing is set aside or lost."""

import errno
import hashlib
from pathlib import Path

import pytest

from pykubelet.criserver.images import ContentStore, ImageIndex
from pykubelet.criserver.images.image_types import ImageConfig, ImageRecord
from pykubelet.criserver.images.index import quarantined_names
from pykubelet.criserver.programs import new_marks
from pykubelet.criserver.record_store import Store
from pykubelet.criserver.storage import Layers, Snapshots
from tests.unit.criserver.interruptions import PassingErrors
from tests.unit.criserver.record_store.records import CONTAINER, SANDBOX
from tests.unit.criserver.storage.world import World, entry

_NUMBERS = [errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM]
_IMAGE = ImageRecord(f"sha256:{'1' * 64}", ("a:latest",), (), 1, ImageConfig(), (), f"sha256:{'2' * 64}")


@pytest.mark.parametrize("number", _NUMBERS)
def test_index_of_images_and_its_quarantine_are_read_again(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, quarantine = tmp_path / "index.json", tmp_path / "index.json.quarantine"
    ImageIndex(index).put(_IMAGE)
    quarantine.write_bytes(b'[{"id": "sha256:3", "tags": ["bad:latest"]}]')
    with monkeypatch.context() as patch:
        errors = PassingErrors(tmp_path, number, patch)
        assert ImageIndex(index).images == {_IMAGE.id: _IMAGE}
        assert quarantined_names(index) == {"sha256:3": "bad:latest"}
        assert errors.failed >= 6
    assert {file.name for file in tmp_path.iterdir()} == {index.name, quarantine.name}


@pytest.mark.parametrize("number", _NUMBERS)
def test_blobs_are_looked_at_again(tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = f"sha256:{hashlib.sha256(b'blob').hexdigest()}"
    ContentStore(tmp_path).add(digest, b"blob")
    with monkeypatch.context() as patch:
        PassingErrors(tmp_path, number, patch)
        assert ContentStore(tmp_path).digests() == {digest}
    assert not list(tmp_path.rglob("*.aside-*"))


def test_many_blobs_that_cannot_be_looked_at_delay_no_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ContentStore(tmp_path)
    for number in range(200):
        data = b"%d" % number
        store.add(f"sha256:{hashlib.sha256(data).hexdigest()}", data)
    with monkeypatch.context() as patch:
        errors = PassingErrors(tmp_path, errno.EIO, patch, times=1_000_000)
        assert ContentStore(tmp_path).digests() == set()
        assert 1 < errors.paused <= 2


@pytest.mark.root
@pytest.mark.parametrize("number", _NUMBERS)
async def test_layers_and_root_file_systems_are_read_again(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    directory = await world.unpack([entry("a", data=b"precious")])
    await world.mount()
    try:
        again = Layers(root=tmp_path / "storage", blob=lambda digest: world.blobs / digest[7:])
        snapshots = Snapshots(tmp_path / "storage", again)
        with monkeypatch.context() as patch:
            errors = PassingErrors(tmp_path / "storage", number, patch)
            snapshots.load()
            assert errors.failed >= 4
        assert directory.name == str((await again.ensure(world.stack)).directory), "the layer is unpacked again"
        assert again.leftovers() == ()
        assert "unreadable" not in caplog.text
    finally:
        await world.snapshots.remove_rootfs("c")


@pytest.mark.parametrize("number", _NUMBERS)
async def test_state_file_and_copies_of_records_are_read_again(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    store = await Store.open(path)
    await store.sandboxes.add(SANDBOX)
    await store.containers.add(CONTAINER)
    await store.close()
    for lost in (False, True):
        if lost:
            path.unlink()
        with monkeypatch.context() as patch:
            errors = PassingErrors(tmp_path, number, patch)
            store = await Store.open(path)
            assert await store.load() == ([SANDBOX], [CONTAINER])
            assert store.intact is not lost
            await store.close()
            assert errors.failed > 1
    assert {file.name for file in tmp_path.iterdir()} <= {"state.db", "state.db-wal", "state.db-shm", "records"}


def test_marks_of_former_servers_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    former = new_marks(tmp_path, tmp_path / "tmp")
    PassingErrors(tmp_path, errno.EMFILE, monkeypatch)
    assert former.own in new_marks(tmp_path, tmp_path / "tmp").former
