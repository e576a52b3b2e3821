"""Programs behind a switch, and small file systems, as faults use them."""

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.faults import areas
from benchmarks.faults.areas import Area
from benchmarks.faults.parts import Order, Switch
from pykubelet.testing.agent import wait_for


@pytest.fixture
def switch(tmp_path: Path) -> Switch:
    made = Switch(tmp_path / "bin" / "echo", "/bin/echo")
    made.install()
    return made


def _run(switch: Switch) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([switch.path, "hello"], capture_output=True, timeout=30)


def test_switch_that_works_runs_the_program_with_its_arguments(switch: Switch) -> None:
    done = _run(switch)
    assert (done.returncode, done.stdout) == (0, b"hello\n")


def test_switch_that_fails_says_so_as_a_plugin_does(switch: Switch) -> None:
    switch.order(Order.FAIL)
    done = _run(switch)
    assert done.returncode == 1
    assert json.loads(done.stdout)["msg"] == "made to fail"


@pytest.mark.parametrize(("order", "least"), [(Order.GARBAGE, 4096), (Order.FLOOD, 64_000_000)])
def test_switch_that_prints_nonsense_reports_success(switch: Switch, order: Order, least: int) -> None:
    switch.order(order)
    done = _run(switch)
    assert done.returncode == 0
    assert len(done.stdout) >= least
    with pytest.raises((ValueError, RecursionError)):
        json.loads(done.stdout)


def test_switch_that_hangs_goes_on_when_the_order_is_lifted(switch: Switch) -> None:
    switch.order(Order.HANG)
    with subprocess.Popen([switch.path, "hello"], stdout=subprocess.PIPE) as program:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(0.5)
        switch.order(Order.WORK)
        wait_for(lambda: program.poll() is not None, 10, lambda: "the program still hangs")
        assert program.stdout is not None
        assert program.stdout.read() == b"hello\n"


def test_switch_that_was_removed_is_missing(switch: Switch) -> None:
    switch.remove()
    with pytest.raises(FileNotFoundError):
        _run(switch)


@pytest.fixture
def area(tmp_path: Path) -> Iterator[Area]:
    made = Area(tmp_path / "area", {"a": tmp_path / "home" / "a"})
    made.mount()
    yield made
    made.unmount()


def _error(path: Path) -> int | None:
    """The error of making a file in the directory."""
    try:
        (path / "new").write_bytes(b"x" * 8192)
    except OSError as error:
        return error.errno
    (path / "new").unlink()
    return None


@pytest.mark.root
def test_area_shows_its_parts_where_they_are_expected(area: Area) -> None:
    (area.targets[0] / "file").write_text("text")
    assert (area.point / "a" / "file").read_text() == "text"


@pytest.mark.root
@pytest.mark.parametrize(
    ("fault", "number"),
    [("full", errno.ENOSPC), ("without_inodes", errno.ENOSPC), ("read_only", errno.EROFS), ("failing", errno.EIO)],
)
def test_area_with_a_fault_refuses_new_files_until_it_is_over(area: Area, fault: str, number: int) -> None:
    if fault == "failing" and not os.access("/dev/fuse", os.R_OK | os.W_OK):
        pytest.skip("needs /dev/fuse")
    target = area.targets[0]
    (target / "old").write_text("old")
    with getattr(area, fault)():
        assert _error(target) == number
    assert _error(target) is None
    assert (target / "old").read_text() == "old"


def test_loop_device_that_vanishes_while_it_is_read_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note, reads = tmp_path / "backing_file", [errno.ENODEV, errno.ENOENT]
    note.write_text("/of/others.img\n")
    read = Path.read_text

    def racing(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if path == note and reads:
            raise OSError(reads.pop(0), "gone", str(path))
        return read(path, encoding, errors)

    monkeypatch.setattr(Path, "read_text", racing)
    monkeypatch.setattr(areas, "_loop_notes", lambda: [note])
    Area(tmp_path / "point", {}, tmp_path / "disk.img").unmount()
    assert reads == []


def test_loop_device_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(areas, "_loop_notes", lambda: [tmp_path])
    with pytest.raises(IsADirectoryError):
        Area(tmp_path / "point", {}, tmp_path / "disk.img").unmount()
