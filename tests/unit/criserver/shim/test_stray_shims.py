"""Shims are identified by their arguments, and only processes of the machine can be one."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pykubelet.criserver.processes import reference
from pykubelet.criserver.shim import stray_shims
from pykubelet.criserver.shim.stray_shims import end_strays, shim_process
from pykubelet.linux import procfs

_NAME = "pykubelet-test-sandbox"


@pytest.fixture
def shim() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import signal; signal.pause()", "-id", _NAME], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def test_pid_of_another_process_is_not_taken_for_the_shim(shim: "subprocess.Popen[bytes]") -> None:
    assert shim_process(shim.pid, _NAME) == reference(shim.pid) is not None
    assert shim_process(shim.pid, "other") is None
    for pid in (0, 1, os.getpid(), os.getppid(), 2**22 + 1, 2**32 - 1):
        assert shim_process(pid, _NAME) is None


def test_arguments_of_processes_in_containers_are_not_read(
    shim: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    found = procfs.arguments

    def arguments(pid: int) -> tuple[bytes, ...] | None:
        read.append(pid)
        return found(pid)

    monkeypatch.setattr(procfs, "arguments", arguments)
    monkeypatch.setattr(stray_shims, "is_of_machine", lambda pid: pid == shim.pid)
    end_strays(_NAME)
    assert set(read) == {shim.pid}, "a hostile process can make that block for ever"
    assert shim.wait(20) == -9
