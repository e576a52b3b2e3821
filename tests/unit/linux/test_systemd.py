"""Talking to systemd, against a manager of a few lines on a socket of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.linux import dbus_wire as wire
from pykubelet.linux.dbus_wire import Kind, Message
from pykubelet.linux.systemd import Property, Systemd

Answer = Callable[[Message], list[Message]]
_JOB = "/org/freedesktop/systemd1/job/7"


class FakeManager:
    """Answers the calls of one connection after another with what the test says."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer: Answer = lambda call: [done(call, "o", _JOB), removed(_JOB)]
        self.greeting = b"OK 1234\r\n"
        self.calls: list[Message] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, name="manager")
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as reader:
                assert reader.readline().startswith(b"\0AUTH EXTERNAL ")
                connection.sendall(self.greeting)
                reader.readline()
                while prefix := reader.read(wire.PREFIX_SIZE):
                    call = wire.decode(prefix + reader.read(wire.length(prefix) - wire.PREFIX_SIZE))
                    self.calls.append(call)
                    answers = self.answer(call)
                    connection.sendall(b"".join(wire.encode(each) for each in answers))
                    if not answers:
                        break


def done(call: Message, signature: str = "", *body: str) -> Message:
    return Message(Kind.RETURN, 1, reply_to=call.serial, signature=signature, body=body)


def refused(call: Message, name: str) -> Message:
    return Message(Kind.ERROR, 1, reply_to=call.serial, error=name, signature="s", body=("no",))


def removed(job: str, result: str = "done") -> Message:
    body = (7, job, "a.slice", result)
    return Message(Kind.SIGNAL, 2, path="/", interface="i", member="JobRemoved", signature="uoss", body=body)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[FakeManager]:
    made = FakeManager(tmp_path / "private")
    yield made
    made.close()


@pytest.fixture
def systemd(manager: FakeManager) -> Systemd:
    return Systemd(manager.path, timeout=5)


def test_a_unit_is_started_when_its_job_has_ended(manager: FakeManager, systemd: Systemd) -> None:
    # Signals of other jobs, and even our own's, may come before the answer.
    manager.answer = lambda call: [removed("/other", "failed"), removed(_JOB), done(call, "o", _JOB)]
    systemd.start_transient("a.slice", [Property("CPUWeight", "t", 39), Property("Wants", "as", ["b.slice"])])
    (call,) = manager.calls
    assert (call.member, call.path) == ("StartTransientUnit", "/org/freedesktop/systemd1")
    assert call.body[:2] == ("a.slice", "replace")
    assert str(call.body[2]).count("CPUWeight") == 1


def test_stop_and_set(manager: FakeManager, systemd: Systemd) -> None:
    systemd.stop("a.slice")
    manager.answer = lambda call: [done(call)]
    systemd.set_properties("a.slice", [Property("TasksMax", "t", 5)])
    assert [call.member for call in manager.calls] == ["StopUnit", "SetUnitProperties"]
    assert manager.calls[1].body[:2] == ("a.slice", True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.freedesktop.systemd1.UnitExists", Conflict),
        ("org.freedesktop.systemd1.NoSuchUnit", NotFound),
        ("org.freedesktop.DBus.Error.AccessDenied", Permanent),
        ("org.freedesktop.DBus.Error.InvalidArgs", Invalid),
        ("org.freedesktop.DBus.Error.Other", Transient),
    ],
)
def test_errors(manager: FakeManager, systemd: Systemd, name: str, kind: type[PykubeletError]) -> None:
    manager.answer = lambda call: [refused(call, name)]
    with pytest.raises(kind, match="systemd refused StopUnit: no"):
        systemd.stop("a.slice")


def test_a_failed_job(manager: FakeManager, systemd: Systemd) -> None:
    manager.answer = lambda call: [done(call, "o", _JOB), removed(_JOB, "failed")]
    with pytest.raises(Transient, match="ended with 'failed'"):
        systemd.stop("a.slice")


def test_a_manager_that_goes_away_or_is_silent(manager: FakeManager, tmp_path: Path) -> None:
    manager.answer = lambda call: []
    with pytest.raises(Transient, match="closed the connection"):
        Systemd(manager.path, timeout=5).stop("a.slice")
    manager.answer = lambda call: [done(call, "o", _JOB)]
    with pytest.raises(Transient, match="is not responding"):
        Systemd(manager.path, timeout=0.2).stop("a.slice")
    with pytest.raises(Transient, match="is not responding"):
        Systemd(tmp_path / "none").stop("a.slice")


def test_a_manager_that_refuses_us(manager: FakeManager, systemd: Systemd) -> None:
    manager.greeting = b"REJECTED EXTERNAL\r\n"
    with pytest.raises(Permanent, match="rejected D-Bus authentication"):
        systemd.stop("a.slice")
