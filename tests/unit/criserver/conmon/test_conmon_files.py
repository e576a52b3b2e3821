"""Files of conmon are not taken for missing while the server cannot read it."""

import errno
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.conmon import find_and_kill
from pykubelet.criserver.conmon.files import Exit, read_exit
from pykubelet.criserver.conmon.find_and_kill import end_commands, noted_number, orphan_runs
from pykubelet.criserver.types import ContainerID
from pykubelet.testing.limits import no_descriptors

ID = ContainerID("c1")


def test_exit_that_cannot_be_read_for_now_is_not_unknown(tmp_path: Path) -> None:
    """The container would count as failed, and would run again."""
    assert read_exit(tmp_path, tmp_path, ID) is None
    (tmp_path / ID).write_text("0\n")
    with no_descriptors(), pytest.raises(Transient, match="c1 cannot be read: Too many open files"):
        read_exit(tmp_path, tmp_path, ID)
    assert read_exit(tmp_path, tmp_path, ID) == Exit(0, (tmp_path / ID).stat().st_mtime_ns, False)


def test_pid_that_cannot_be_read_for_now_is_not_missing(tmp_path: Path) -> None:
    """Its process would go on without a container."""
    file = tmp_path / "pid"
    assert noted_number(file) == 0
    file.write_text("17")
    with no_descriptors(), pytest.raises(Transient):
        noted_number(file)
    assert noted_number(file) == 17


def test_notes_that_cannot_be_read_for_now_keep_no_server_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(find_and_kill, "read_regular", refuse)
    command = tmp_path / f"exec-{ID}-1" / "pid"
    command.parent.mkdir()
    command.touch()
    end_commands(tmp_path, lambda: False)
    assert "command of a killed server not ended" in caplog.text
    assert orphan_runs(tmp_path, ID), "it is not removed as long as it may run"
