"""The emulated machine of the tests in this directory, which is booted once, and the table of what ran in it."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.v2.node import Node
from tools.v2 import image, project
from tools.v2.machine import Machine, missing

CACHE = Path(os.environ.get("PYKUBELET_V2_CACHE", project.ROOT / "build" / "v2"))
"""Where the image of the machine is kept, and the console of the last one that was booted."""
_rows: list[tuple[str, str, float]] = []


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    """The machine, which has booted; at the end it is powered off."""
    if reason := missing():
        pytest.skip(reason)
    began = time.monotonic()
    built = image.build(CACHE)
    _rows.append(("image of the machine", "built or found", time.monotonic() - began))
    began = time.monotonic()
    project.build(CACHE / "project.img", built.python)
    _rows.append(("disk of the project", "built", time.monotonic() - began))
    began = time.monotonic()
    emulated = Machine(built, CACHE / "project.img", CACHE)
    try:
        emulated.start()
        emulated.wait_booted()
        _rows.append(("boot", "booted", time.monotonic() - began))
        yield emulated
        began = time.monotonic()
        status = emulated.stop()
        _rows.append(("power off", f"status {status}", time.monotonic() - began))
        assert status == 0, f"qemu ended with {status}"
    finally:
        emulated.destroy()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the result and the duration of each test of this directory."""
    if report.when == "call" and "tests/v2/" in report.nodeid:
        _rows.append((report.nodeid.rpartition("::")[2], report.outcome, report.duration))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    if _rows:
        terminalreporter.section("in the emulated machine")
        for name, outcome, seconds in _rows:
            terminalreporter.write_line(f"{seconds:7.1f} s  {outcome:15} {name}")


@pytest.fixture(scope="session")
def node(machine: Machine) -> Node:
    """pykubelet on that machine, installed with runc and the systemd cgroup driver, with an image."""
    began = time.monotonic()
    installed = Node(machine)
    installed.install()
    _rows.append(("pykubelet install, image import", "done", time.monotonic() - began))
    return installed
