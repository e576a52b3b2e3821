"""The socket of the local API: private, exclusive, removed at the end."""

import os
import socket
import stat
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid
from pykubelet.kubelet.serve.local_api.unix_socket import listening


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_private_socket_is_in_a_traversable_directory_and_removed_at_the_end(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "deep" / "run" / "agent.sock"
    before = os.umask(umask)
    try:
        with listening(path):
            assert connects(path)
            assert (mode(path.parent), mode(path)) == (0o711, 0o600)
            assert mode(path.with_name("agent.sock.lock")) == 0o600
    finally:
        os.umask(before)
    assert not path.exists()


@pytest.mark.parametrize("former", [0o700, 0o755, 0o777])
def test_directory_can_be_traversed_but_not_listed_by_others_whatever_it_was_before(
    tmp_path: Path, former: int
) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    directory.chmod(former)
    with listening(directory / "agent.sock"):
        assert mode(directory) == 0o711


def test_stale_socket_of_a_dead_agent_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.is_socket() and not connects(path)
    with listening(path):
        assert connects(path)


def test_two_agents_cannot_share_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with listening(path):
        with pytest.raises(Conflict, match=r"process \d+"), listening(path):
            raise AssertionError
        assert connects(path), "the first one goes on"
    with listening(path):
        assert connects(path)


def test_unusable_socket_paths_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="longer than"), listening(tmp_path / ("x" * 120)):
        raise AssertionError
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="cannot create the directory"), listening(tmp_path / "file" / "sub" / "a.sock"):
        raise AssertionError


def test_symlinked_lock_file_is_rejected(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep me")
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / "agent.sock.lock").symlink_to(victim)
    with pytest.raises(OSError), listening(directory / "agent.sock"):
        raise AssertionError
    assert victim.read_text() == "keep me"
