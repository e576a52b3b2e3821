"""Namespaces pinned to files, and calls inside them."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.linux.filesystems.mountinfo import is_mount_point
from pykubelet.linux.namespaces import Namespace, call_in, is_namespace, pin_new, unpin

pytestmark = pytest.mark.root


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for path in tmp_path.iterdir():
        unpin(str(path))


def own(kind: Namespace) -> str:
    return str(Path(f"/proc/thread-self/ns/{kind.file}").readlink())


def devices() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def test_pinned_namespaces_are_entered_by_calls(place: Path) -> None:
    before = {kind: own(kind) for kind in Namespace}
    paths = {kind: str(place / kind.file) for kind in (Namespace.NET, Namespace.IPC, Namespace.UTS)}
    pin_new(paths)
    for kind, path in paths.items():
        assert is_mount_point(path)
        inside = call_in(path, kind, lambda kind=kind: own(kind))  # type: ignore[misc]
        assert inside != before[kind]
        assert inside == f"{kind.file}:[{Path(path).stat().st_ino}]"
    assert {kind: own(kind) for kind in Namespace} == before
    assert call_in(paths[Namespace.NET], Namespace.NET, devices) == ["lo"]


def test_loopback_works_at_once(place: Path) -> None:
    pin_new({Namespace.NET: str(place / "net")})

    def talk() -> bytes:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as client,
        ):
            client.sendall(b"hello")
            with server.accept()[0] as peer:
                return peer.recv(5)

    assert call_in(str(place / "net"), Namespace.NET, talk) == b"hello"


def test_unpin_lets_go_and_repeats(place: Path) -> None:
    path = str(place / "net")
    pin_new({Namespace.NET: path})
    unpin(path)
    assert not Path(path).exists()
    unpin(path)


def test_an_existing_file_is_a_conflict_and_stays(place: Path) -> None:
    (place / "net").write_text("another's")
    with pytest.raises(Conflict):
        pin_new({Namespace.UTS: str(place / "uts"), Namespace.NET: str(place / "net")})
    assert (place / "net").read_text() == "another's"
    assert not (place / "uts").exists(), "all or nothing"


def test_errors_of_the_function_come_through(place: Path) -> None:
    pin_new({Namespace.UTS: str(place / "uts")})

    def fail() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        call_in(str(place / "uts"), Namespace.UTS, fail)
    with pytest.raises(NotFound):
        call_in(str(place / "missing"), Namespace.UTS, fail)


def test_no_thread_is_left(place: Path) -> None:
    before = threading.active_count()
    pin_new({Namespace.UTS: str(place / "uts")})
    assert threading.active_count() == before


def test_files_of_namespaces_only_are_recognized(tmp_path: Path) -> None:
    left = tmp_path / "net"
    left.touch()
    assert is_namespace("/proc/self/ns/uts")
    assert not is_namespace(left)
    assert not is_namespace(tmp_path / "absent")
