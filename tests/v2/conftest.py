"""The emulated machine of the tests in this directory, which is booted once, and the table of what ran in it."""

import os
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.v2.node import Node
from tools.v2 import image, project
from tools.v2.machine import Machine, MachineError, MachineLostError, missing
from tools.v2.smoke import BOOTED, NO_MACHINE, UNAVAILABLE, boot_limit, limited

CACHE = Path(os.environ.get("PYKUBELET_V2_CACHE", project.ROOT / "build" / "v2"))
"""Directory of the machine's image, and of the console of the last machine that was booted."""
RELEASE = os.environ.get("PYKUBELET_V2_RELEASE", "")
"""The Debian release of the machine; empty: that of the host."""
ORDER = (
    "test_smoke",
    "test_units",
    "test_node_shutdown",
    "test_memory",
    "test_apparmor",
    "test_crun",
    "test_inside",
    "test_selinux",
    "test_removal",
)
"""Modules in the order in which they run: the short form first, and last what removes the installation."""
_rows: list[tuple[str, str, float, float]] = []
_booted: list[Machine] = []


def _cpu_seconds() -> float:
    return _booted[0].cpu_seconds if _booted else 0.0


@contextmanager
def _measured(name: str, outcome: list[str]) -> Iterator[None]:
    """Add a row to the table, with the outcome that the list has at the end."""
    began, cpu = time.monotonic(), _cpu_seconds()
    try:
        yield
    finally:
        _rows.append((name, outcome[-1], time.monotonic() - began, max(0.0, _cpu_seconds() - cpu)))


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The machine, which has booted; at the end it is powered off."""
    if reason := missing():
        pytest.skip(reason)
    for name in (BOOTED, UNAVAILABLE):
        (CACHE / name).unlink(missing_ok=True)
    enforcing = _enforcing(request.session.items)
    try:
        with _measured("image of the machine", [RELEASE or image.own_release()]):
            built = image.build(CACHE, RELEASE, enforcing=enforcing)
        with _measured("disk of the project", ["built"]):
            project.build(CACHE / "project.img", built.python)
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        _give_up(f"its disks cannot be made: {error}")
    emulated = Machine(built, CACHE / "project.img", CACHE)
    _booted.append(emulated)
    try:
        outcome = ["did not boot"]
        try:
            with _measured("boot", outcome):
                emulated.boot(boot_limit())
                outcome.append(f"booted ({emulated.accelerator})")
        except MachineError as error:
            _give_up(str(error))
        (CACHE / BOOTED).write_text(f"{emulated.boot_seconds:.1f} {emulated.pid}\n")
        yield emulated
        # Within a time limit it is not worth the 90 s that systemd waits for processes that ignore SIGTERM.
        if not limited() and emulated.pid:
            ended = ["did not end"]
            with _measured("power off", ended):
                ended.append(f"status {emulated.stop()}")
            assert ended[-1] == "status 0", f"qemu: {ended}"
    finally:
        emulated.destroy()
        _booted.clear()


def _give_up(reason: str) -> NoReturn:
    """End the run, since there is no machine to run anything in."""
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / UNAVAILABLE).write_text(reason)
    pytest.exit(reason, NO_MACHINE)


def pytest_exception_interact(call: pytest.CallInfo[Any]) -> None:
    """End the run if qemu has ended."""
    if call.excinfo is not None and isinstance(call.excinfo.value, MachineLostError):
        _give_up(str(call.excinfo.value))


@pytest.fixture(scope="session")
def node(machine: Machine, request: pytest.FixtureRequest) -> Node:
    """pykubelet on that machine, installed with runc and the systemd cgroup driver, with an image."""
    installed = Node(machine)
    with _measured("pykubelet install, image import", ["done"]):
        installed.install(compared=any("test_removal" in item.nodeid for item in request.session.items))
    return installed


def _module(item: pytest.Item) -> str:
    return str(getattr(getattr(item, "module", None), "__name__", ""))


def _enforcing(items: list[pytest.Item]) -> bool:
    """Whether the machine is the one with SELinux: all tests of this directory that were chosen need it."""
    return all(item.get_closest_marker("selinux") for item in items if _module(item).startswith("tests.v2."))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the modules of this directory; the others stay where they are."""
    names = {f"tests.v2.{name}": number for number, name in enumerate(ORDER)}
    items.sort(key=lambda item: names.get(_module(item), -1))
    if not _enforcing(items):
        for item in items:
            if item.get_closest_marker("selinux"):
                item.add_marker(pytest.mark.skip(reason="needs a machine of its own: make test-v2 V2=selinux"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Measure what a module prepares for its tests: configuration and pods."""
    if fixturedef.scope != "module":
        return (yield)
    outcome = ["failed"]
    with _measured(f"{fixturedef.baseid.rpartition('/')[2]}: {fixturedef.argname}", outcome):
        result = yield
        outcome.append("prepared")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure each test."""
    outcome = ["failed"]
    with _measured(item.name, outcome):
        result = yield
        outcome.append(", ".join(("passed", *(f"{name} {value}" for name, value in item.user_properties))))
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table."""
    if _rows:
        terminalreporter.section("in the emulated machine")
        terminalreporter.write_line(" elapsed  of the CPU")
        for name, outcome, seconds, cpu in _rows:
            terminalreporter.write_line(f"{seconds:7.1f} s  {cpu:7.1f} s  {outcome:15} {name}")
