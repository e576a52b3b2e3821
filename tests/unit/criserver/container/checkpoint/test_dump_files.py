"""The files of checkpoints that others have written."""

import json
import os
import socket
import tarfile
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, NotFound
from pykubelet.criserver.container.checkpoint import archive, dump_files
from pykubelet.criserver.container.checkpoint.dump_files import (
    CheckedImages,
    continue_log,
    open_archive,
    open_deletions,
    open_diff,
    read_dump,
)
from pykubelet.criserver.storage.unpacking import unpack_archive
from pykubelet.criserver.unpack.limits import Limits


def checkpoint(directory: Path) -> Path:
    """The least files of a checkpoint."""
    (directory / "checkpoint").mkdir(parents=True)
    (directory / "checkpoint" / "inventory.img").write_bytes(b"1")
    (directory / "config.dump").write_text(json.dumps({"rootfsImageRef": "app:1", "name": "app"}))
    (directory / "spec.dump").write_text("{}")
    return directory


def test_description_is_read(tmp_path: Path) -> None:
    found = read_dump(checkpoint(tmp_path / "c"), "it")
    assert (found.described.base, found.described.name) == ("app:1", "app")


@pytest.mark.parametrize("name", ["config.dump", "spec.dump", "checkpoint/inventory.img"])
def test_file_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    directory = checkpoint(tmp_path / "c")
    (directory / name).unlink()
    with pytest.raises(Invalid, match=f"it is not a checkpoint: it lacks .*{Path(name).name}"):
        read_dump(directory, "it")


@pytest.mark.parametrize("name", ["config.dump", "checkpoint/pages-1.img", "container.log", "checkpoint/parent"])
@pytest.mark.parametrize("kind", ["link", "fifo", "socket"])
def test_dump_with_an_irregular_file_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    directory = checkpoint(tmp_path / "c")
    place = directory / name
    place.unlink(missing_ok=True)
    if kind == "link":
        place.symlink_to("/etc/shadow")
    elif kind == "fifo":
        os.mkfifo(place)
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    with pytest.raises(Invalid, match="is neither a file nor a directory"):
        read_dump(directory, "it")


def test_dump_with_a_large_or_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = checkpoint(tmp_path / "c")
    monkeypatch.setattr(dump_files, "_MAX_SPEC", 10)
    (directory / "spec.dump").write_text(" " * 11)
    with pytest.raises(Invalid, match=r"it: .*spec.dump"):
        read_dump(directory, "it")
    (directory / "spec.dump").write_text("{}")
    monkeypatch.setattr(dump_files, "MAX_FILES", 4)
    (directory / "more").touch()
    with pytest.raises(Invalid, match="more than 4 files"):
        read_dump(directory, "it")


def test_directories_are_not_deep(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "c")
    (directory / "/".join("d" * 32)).mkdir(parents=True)
    read_dump(directory, "it")
    (directory / "/".join("d" * 33)).mkdir(parents=True)
    with pytest.raises(Invalid, match="it has directories deeper than 32 levels"):
        read_dump(directory, "it")


def test_images_are_read_up_to_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("core-1.img", "core-2.img", "ids-1.img", "pages-1.img"):
        (tmp_path / name).write_bytes(b"1234")
    images = CheckedImages(directory=tmp_path, what="it")
    assert sorted(images.names) == ["core-1.img", "core-2.img", "ids-1.img"]
    monkeypatch.setattr(dump_files, "_MAX_IMAGE", 3)
    with pytest.raises(Invalid, match=r"it: core-1\.img is longer than 3 bytes"):
        images.read("core-1.img")
    monkeypatch.undo()
    monkeypatch.setattr(dump_files, "_MAX_IMAGES", 10)
    images = CheckedImages(directory=tmp_path, what="it")
    assert images.read("core-1.img") == images.read("core-2.img") == b"1234"
    with pytest.raises(Invalid, match=r"it: ids-1\.img is longer than 2 bytes"):
        images.read("ids-1.img")


def test_descriptors_are_checked(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path / "c")
    (directory / "checkpoint" / "descriptors.json").write_text(json.dumps(["pipe:[1]"] * 20))
    with pytest.raises(Invalid, match=r"descriptors\.json"):
        read_dump(directory, "it")


def test_archive_is_a_regular_file(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"tar")
    fd = open_archive(str(tmp_path / "a.tar"))
    assert os.read(fd, 10) == b"tar"
    os.close(fd)
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(Invalid):
            open_archive(str(tmp_path / name))
    with pytest.raises(NotFound):
        open_archive(str(tmp_path / "missing"))


def test_changed_files_are_optional(tmp_path: Path) -> None:
    assert open_diff(tmp_path) is None
    (tmp_path / "rootfs-diff.tar").touch()
    fd = open_diff(tmp_path)
    assert fd is not None
    os.close(fd)


def test_list_of_deleted_files_becomes_a_layer(tmp_path: Path) -> None:
    """As CRI-O and Podman write it."""
    assert open_deletions(tmp_path, "it") is None
    (tmp_path / "deleted.files").write_text(json.dumps(["/etc/group", "one", "/a/b/"]))
    fd = open_deletions(tmp_path, "it")
    assert fd is not None
    with os.fdopen(fd, "rb") as file, tarfile.open(fileobj=file) as tar:
        assert tar.getnames() == ["etc/.wh.group", ".wh.one", "a/.wh.b"]
    for content in ('["/"]', '["a", ""]', '["a\\u0000"]', '{"a": 1}', "["):
        (tmp_path / "deleted.files").write_text(content)
        with pytest.raises(Invalid, match=r"it: deleted\.files"):
            open_deletions(tmp_path, "it")


@pytest.mark.root
async def test_deleted_files_are_removed_in_the_directory_only(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    for directory in (outside, root / "d"):
        directory.mkdir(parents=True)
        (directory / "file").touch()
    (root / "link").symlink_to(outside)
    (tmp_path / "deleted.files").write_text(json.dumps(["/d/file", "/link/file", "/missing/file"]))
    fd = open_deletions(tmp_path, "it")
    assert fd is not None
    await unpack_archive(fd, "it", root, merged=True, limits=Limits())
    os.close(fd)
    assert not (root / "d" / "file").exists() and (outside / "file").exists()
    (tmp_path / "deleted.files").write_text(json.dumps(["/../outside/file"]))
    fd = open_deletions(tmp_path, "it")
    assert fd is not None
    with pytest.raises(Invalid, match="leads out"):
        await unpack_archive(fd, "it", root, merged=True, limits=Limits())
    os.close(fd)


def test_log_is_continued_unless_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "0.log"
    continue_log(tmp_path, log)
    assert not log.exists()
    (tmp_path / "container.log").write_text("first\nsecond\nthird\n")
    monkeypatch.setattr(archive, "MAX_LOG", 10)
    continue_log(tmp_path, log)
    assert log.read_text() == "third\n"
    log.write_text("own\n")
    continue_log(tmp_path, log)
    assert log.read_text() == "own\n"
    log.unlink()
    log.symlink_to(tmp_path / "elsewhere")
    continue_log(tmp_path, log)
    assert not (tmp_path / "elsewhere").exists()
