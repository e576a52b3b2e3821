"""The file system that hangs and fails when it is told to."""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import wait_for
from pykubelet.testing.fuse import Behaviour, FuseMount

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(not os.access("/dev/fuse", os.R_OK | os.W_OK), reason="needs /dev/fuse"),
]


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[FuseMount]:
    with FuseMount(tmp_path / "volume") as made:
        yield made


def test_fuse_mount_that_works_serves_its_file(volume: FuseMount) -> None:
    assert [path.name for path in volume.point.iterdir()] == ["data"]
    assert (volume.point / "data").read_bytes() == b"data\n"
    assert os.statvfs(volume.point).f_bavail > 0


@pytest.mark.parametrize("act", [os.listdir, os.stat, lambda path: (path / "data").read_bytes()])
def test_fuse_mount_that_fails_answers_eio(volume: FuseMount, act: Callable[[Path], object]) -> None:
    volume.behave(Behaviour.FAIL)
    with pytest.raises(OSError, match="Input/output error") as caught:
        act(volume.point)
    assert caught.value.errno == errno.EIO


def test_fuse_mount_that_hangs_holds_its_clients_until_it_dies(volume: FuseMount) -> None:
    volume.behave(Behaviour.HANG)
    client = subprocess.Popen(["ls", str(volume.point)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            client.wait(0.3)
        volume.kill()
        wait_for(lambda: client.poll() is not None, 5, lambda: "the client still waits")
    finally:
        volume.kill()
        client.kill()
        client.wait()
    assert client.returncode != 0
    with pytest.raises(OSError) as caught:  # the number says it
        volume.point.stat()
    assert caught.value.errno == errno.ENOTCONN
    volume.unmount()
    volume.start()
    assert [path.name for path in volume.point.iterdir()] == ["data"]
