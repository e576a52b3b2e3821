"""The lock file of a daemon: it waits for it, and gives it up when another process asks for it."""

import fcntl
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykubelet.base.daemon.lock_file import lock_file
from pykubelet.base.errors import Invalid
from pykubelet.cli.arguments.lock_flags import take_lock

_DAEMON = """
import sys, time
from pathlib import Path
from pykubelet.base.daemon.lock_file import lock_file

with lock_file(Path(sys.argv[1]), give_way=sys.argv[2] == "yes"):
    print("held", flush=True)
    time.sleep(600)
"""


@contextmanager
def daemon(path: Path, give_way: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", _DAEMON, str(path), give_way]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def says_held(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None
    return process.stdout.readline() == b"held\n"


def test_daemon_waits_until_the_lock_is_free(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with daemon(tmp_path / "lock", give_way="no") as process:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(1)
            fcntl.flock(other, fcntl.LOCK_UN)
            assert says_held(process)


def test_daemon_that_gives_way_ends_when_another_process_opens_the_file(tmp_path: Path) -> None:
    with daemon(tmp_path / "lock", give_way="yes") as process:
        assert says_held(process)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        with (tmp_path / "lock").open() as other:
            fcntl.flock(other, fcntl.LOCK_EX)  # as soon as the process has ended
        assert process.wait(20) == -signal.SIGTERM


def test_daemon_that_does_not_give_way_stays(tmp_path: Path) -> None:
    with daemon(tmp_path / "lock", give_way="no") as process:
        assert says_held(process)
        with (tmp_path / "lock").open(), pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)


def test_unusable_lock_file_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(Invalid, match="missing/lock cannot be used: No such file"),
        lock_file(tmp_path / "missing/lock", give_way=False),
    ):
        pytest.fail("not reached")


def test_contention_without_a_lock_file_is_refused() -> None:
    with pytest.raises(Invalid, match="requires --lock-file"):
        take_lock({"lock_file": None, "exit_on_lock_contention": True})
    with take_lock({"lock_file": None, "exit_on_lock_contention": False}):
        pass
