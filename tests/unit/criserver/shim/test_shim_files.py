"""The files of tasks: marks of starts and ends, and damaged notes."""

import os
import socket
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.conmon import Exit
from pykubelet.criserver.shim.shim_files import Mark, ShimNote, TaskFiles
from pykubelet.criserver.shim.shim_program import Bootstrap
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux.filesystems.mounts import bind
from pykubelet.testing.limits import no_descriptors


def test_files_tell_how_far_a_task_has_come(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "config.json").write_text("{}")
    files = TaskFiles(tmp_path / "tasks" / "c1")
    assert not files.exist()
    assert (files.shim(), files.exit(), files.has(Mark.STARTED)) == (None, None, False)
    files.make(bundle)
    (bundle / "config.json").write_text('{"changed": 1}')
    files.make(bundle)
    assert (files.directory / "config.json").read_text() == '{"changed": 1}'
    note = ShimNote(Bootstrap("unix:///run/s", 3), ProcessRef(7, 8, "boot"))
    files.note_shim(note)
    files.mark(Mark.STARTED)
    files.note_exit(Exit(137, 5, True))
    assert (files.shim(), files.has(Mark.STARTED), files.exit()) == (note, True, Exit(137, 5, True))
    for _ in range(2):
        files.remove()
    assert not files.exist()
    assert list((tmp_path / "tasks").iterdir()) == []


def test_interrupted_removal_is_finished_by_the_next_one(tmp_path: Path) -> None:
    files = TaskFiles(tmp_path / "c1")
    files.directory.mkdir()
    files.mark(Mark.CREATED)
    assert files.has(Mark.CREATED)
    (tmp_path / ".removed-c1" / "execs").mkdir(parents=True)
    files.remove()
    assert list(tmp_path.iterdir()) == []


def test_notes_that_cannot_be_read_for_now_are_not_missing(tmp_path: Path) -> None:
    files = TaskFiles(tmp_path)
    files.note_exit(Exit(0, 5, False))
    files.note_shim(ShimNote(Bootstrap("unix:///run/s", 3), None))
    with no_descriptors():
        for read in (files.exit, files.shim):
            with pytest.raises(Transient, match="Too many open files"):
                read()
    assert files.exit() == Exit(0, 5, False) and files.shim() is not None


@pytest.mark.parametrize(
    "content",
    [b"{", b'{"bootstrap":{"address":"\xff"},"code":"\xff"}', b'{"x":' + b"[" * 30_000],
    ids=["cut", "bytes", "deep"],
)
def test_damaged_notes_count_as_missing(tmp_path: Path, content: bytes) -> None:
    files = TaskFiles(tmp_path)
    for name in ("pykubelet-shim.json", "pykubelet-exit.json"):
        (tmp_path / name).write_bytes(content)
    assert (files.shim(), files.exit()) == (None, None)


def test_socket_that_the_shim_has_noted_is_removed(tmp_path: Path) -> None:
    files, path = TaskFiles(tmp_path), tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    (tmp_path / "address").write_text(f"unix://{path}")
    for _ in range(2):
        files.remove_socket()
    assert not path.exists()


@pytest.mark.parametrize(
    "noted",
    [
        b"",
        b"unix:///run/s\0",
        b"unix:///" + b"a" * 300,
        b"unix:///" + b"x/" * 9000,
        b"unix:///etc",
        b"\xff\xfe",
        b"unix://relative",
        b"x" * (1 << 17),
    ],
)
def test_address_that_names_no_socket_does_not_keep_the_task(tmp_path: Path, noted: bytes) -> None:
    (tmp_path / "address").write_bytes(noted)
    TaskFiles(tmp_path).remove_socket()


def test_address_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")
    (tmp_path / "address").write_text(f"unix://{kept}")
    TaskFiles(tmp_path).remove_socket()
    assert kept.exists(), "only a socket is removed"
    (tmp_path / "address").unlink()
    os.mkfifo(tmp_path / "address")
    TaskFiles(tmp_path).remove_socket()


@pytest.mark.root
def test_data_that_a_dead_shim_has_left_mounted_is_not_deleted(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    files = TaskFiles(tmp_path / "tasks" / "c1")
    (files.directory / "rootfs").mkdir(parents=True)
    bind(str(kept), str(files.directory / "rootfs"))
    files.remove()
    assert not files.exist()
    assert (kept / "file").exists()
    assert list((tmp_path / "tasks").iterdir()) == []
