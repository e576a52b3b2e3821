"""Messages to systemd's notification socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.daemon.notify import Notifier, watchdog_timeout
from pykubelet.base.errors import Invalid


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.settimeout(10)
        yield receiver


@pytest.mark.parametrize("abstract", [False, True])
def test_states_arrive_at_a_path_or_an_abstract_name(receiver: socket.socket, tmp_path: Path, abstract: bool) -> None:
    name = f"pykubelet-test-{os.getpid()}"
    receiver.bind(f"\0{name}" if abstract else str(tmp_path / "n"))
    notifier = Notifier(f"@{name}" if abstract else str(tmp_path / "n"))
    notifier.ready()
    notifier.stopping()
    assert [receiver.recv(64), receiver.recv(64)] == [
        b"READY=1\nSTATUS=Serving",
        b"STOPPING=1\nSTATUS=Stopping; containers keep running",
    ]
    notifier.reloading(12.5)
    notifier.reloaded("Serving; wrong\nREADY=1")
    assert [receiver.recv(99), receiver.recv(64)] == [
        b"RELOADING=1\nMONOTONIC_USEC=12500000\nSTATUS=Reloading the configuration",
        b"READY=1\nSTATUS=Serving; wrong\\nREADY=1",
    ]
    assert notifier.alive()
    notifier.status("a\nREADY=1")
    assert [receiver.recv(64), receiver.recv(64)] == [b"WATCHDOG=1", b"STATUS=a\\nREADY=1"]


def test_reload_before_the_daemon_serves_is_not_notified(receiver: socket.socket, tmp_path: Path) -> None:
    receiver.bind(str(tmp_path / "n"))
    notifier = Notifier(str(tmp_path / "n"))
    notifier.reloading(12.5)
    notifier.reloaded("Serving; configuration refused: x")
    notifier.ready()
    assert receiver.recv(99) == b"READY=1\nSTATUS=Serving; configuration refused: x"


def test_address_is_taken_out_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/no/such/socket")
    notifier = Notifier.from_environment()
    assert "NOTIFY_SOCKET" not in os.environ
    notifier.ready()
    assert "service manager not notified" in caplog.text
    caplog.clear()
    Notifier.from_environment().ready()
    assert caplog.text == ""


def test_watchdog_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2500000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    notifier = Notifier.from_environment()
    assert notifier.watchdog == 2.5
    assert not {"WATCHDOG_USEC", "WATCHDOG_PID"} & os.environ.keys()
    assert Notifier.from_environment().watchdog == 0
    assert not notifier.alive(), "there is no socket"


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "1000001"}, 1.000001),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, 0),
        ({"WATCHDOG_USEC": "1", "WATCHDOG_PID": "8"}, 0),
        ({"WATCHDOG_PID": "7"}, 0),
    ],
)
def test_watchdog_timeout_is_read_for_this_process_only(variables: dict[str, str], seconds: float) -> None:
    assert watchdog_timeout(variables, 7) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WATCHDOG_USEC": "1000000"}, "configure watchdog timeout too small: 1s;"),
        ({"WATCHDOG_USEC": "500000"}, "configure watchdog timeout too small: 500ms;"),
        ({"WATCHDOG_USEC": "20"}, "configure watchdog timeout too small: 20µs;"),
        ({"WATCHDOG_USEC": "soon"}, "configure watchdog: WATCHDOG_USEC is 'soon'"),
        ({"WATCHDOG_USEC": "0"}, "configure watchdog: WATCHDOG_USEC is '0'"),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "-1"}, "configure watchdog: WATCHDOG_PID is '-1'"),
    ],
)
def test_wrong_watchdog_is_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid, match=f"^{message}"):
        watchdog_timeout(variables, 7)
