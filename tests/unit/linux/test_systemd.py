"""Talking to systemd, against a manager of a few lines on a socket of its own."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jeepney.low_level import HeaderFields, Message, Parser
from jeepney.wrappers import DBusAddress, new_error, new_method_return, new_signal

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.linux.systemd import Systemd
from pykubelet.linux.transient_units import Property

Answer = Callable[[Message], list[Message | bytes]]
_EMITTER = DBusAddress("/org/freedesktop/systemd1", interface="org.freedesktop.systemd1.Manager")
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
            with connection, connection.makefile("rb") as reader, suppress(ConnectionError):
                self._converse(connection, reader)

    def _converse(self, connection: socket.socket, reader: BinaryIO) -> None:
        assert reader.readline().startswith(b"\0AUTH EXTERNAL ")
        connection.sendall(self.greeting)
        reader.readline()
        parser = Parser()
        while data := reader.read(parser.bytes_desired()):
            for call in parser.feed(data):
                self.calls.append(call)
                answers = self.answer(call)
                if not answers:
                    return
                connection.sendall(b"".join(map(encoded, answers)))


def encoded(answer: Message | bytes) -> bytes:
    return answer if isinstance(answer, bytes) else bytes(answer.serialise(1))


def done(call: Message, signature: str | None = None, *body: object) -> Message:
    return new_method_return(call, signature, body)


def refused(call: Message, name: str) -> Message:
    return new_error(call, name, "s", ("no",))


def removed(job: str, result: str = "done") -> Message:
    return new_signal(
        _EMITTER,
        "JobRemoved",
        "uoss",
        (7, job, "a.slice", result),
    )


def member(call: Message) -> str:
    return str(call.header.fields[HeaderFields.member])


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
    assert (member(call), call.header.fields[HeaderFields.path]) == ("StartTransientUnit", "/org/freedesktop/systemd1")
    assert call.header.fields[HeaderFields.destination] == "org.freedesktop.systemd1"
    assert call.header.fields[HeaderFields.interface] == "org.freedesktop.systemd1.Manager"
    rows = [("CPUWeight", ("t", 39)), ("Wants", ("as", ["b.slice"]))]
    assert call.body == ("a.slice", "replace", rows, [])


def test_stop_and_set_call_the_methods_of_systemd(manager: FakeManager, systemd: Systemd) -> None:
    systemd.stop("a.slice")
    manager.answer = lambda call: [done(call)]
    systemd.set_properties("a.slice", [Property("TasksMax", "t", 5)])
    assert [member(call) for call in manager.calls] == ["StopUnit", "SetUnitProperties"]
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
def test_error_name_of_systemd_decides_the_kind_of_error(
    manager: FakeManager, systemd: Systemd, name: str, kind: type[PykubeletError]
) -> None:
    manager.answer = lambda call: [refused(call, name)]
    with pytest.raises(kind, match="systemd refused StopUnit: no"):
        systemd.stop("a.slice")


def test_failed_job_of_systemd_is_an_error(manager: FakeManager, systemd: Systemd) -> None:
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


@pytest.mark.parametrize(("signature", "value"), [("s", 1), ("u", -1), ("y", 256), ("as", "x"), ("t", "1"), ("?", 1)])
def test_property_whose_value_does_not_fit_its_type_is_invalid(
    manager: FakeManager, systemd: Systemd, signature: str, value: Any
) -> None:
    with pytest.raises(Invalid, match="do not fit"):
        systemd.start_transient("a.slice", [Property("P", signature, value)])


def test_message_of_excessive_length_is_invalid(manager: FakeManager, systemd: Systemd) -> None:
    manager.answer = lambda call: [b"l\x02\x00\x01" + b"\xff" * 4 + b"\x01\x00\x00\x00" + b"\x00" * 4]
    with pytest.raises(Invalid, match=r"D-Bus message of 42949672\d\d bytes"):
        systemd.stop("a.slice")


@pytest.mark.parametrize(("signature", "body"), [("", ()), ("oo", (_JOB, _JOB)), ("as", ([_JOB],))])
def test_answer_that_names_no_job_is_invalid(
    manager: FakeManager, systemd: Systemd, signature: str, body: tuple[object, ...]
) -> None:
    manager.answer = lambda call: [done(call, signature, *body)]
    with pytest.raises(Invalid, match=r"StopUnit of a\.slice names no job"):
        systemd.stop("a.slice")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 80), st.integers(0, 255))
def test_answer_with_a_wrong_byte_is_invalid_or_read(manager: FakeManager, position: int, value: int) -> None:
    def damaged(call: Message) -> list[Message | bytes]:
        data = bytearray(encoded(done(call, "o", _JOB)))
        data[position % len(data)] = value
        return [bytes(data), removed(_JOB)]

    manager.answer = damaged
    try:
        Systemd(manager.path, timeout=0.1).stop("a.slice")
    except (Invalid, Transient):
        return
