"""Messages to systemd's notification socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.base.notify import Notifier


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
    assert [receiver.recv(64), receiver.recv(64)] == [b"READY=1", b"STOPPING=1"]


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
