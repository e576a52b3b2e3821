"""Client of systemd: starts, changes and stops transient units. Blocking.

It uses systemd's private socket, which is open to root and needs no message bus. Each operation has its own connection:
operations are rare (a pod starts or ends), and systemd may be restarted between two of them. jeepney encodes and
decodes the messages; connection, deadlines and authentication are here, since jeepney's connections expect a bus.

Source: org.freedesktop.systemd1(5).
"""

import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jeepney.low_level import HeaderFields, Message, MessageType, Parser
from jeepney.wrappers import DBusAddress, new_method_call

from pykubelet.base.errors import Invalid, Permanent, Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.dbus.messages import MAX_MESSAGE, malformed, refusal
from pykubelet.linux.transient_units import SOCKET, Property, Value

_TIMEOUT: Seconds = 30.0
_MANAGER = DBusAddress(
    "/org/freedesktop/systemd1",
    bus_name="org.freedesktop.systemd1",
    interface="org.freedesktop.systemd1.Manager",
)


class Systemd:
    """`Units` of the system manager."""

    def __init__(self, path: Path = SOCKET, timeout: Seconds = _TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout

    def start_transient(self, name: str, properties: Iterable[Property]) -> None:
        self._job(name, "StartTransientUnit", "ssa(sv)a(sa(sv))", (name, "replace", _rows(properties), []))

    def set_properties(self, name: str, properties: Iterable[Property]) -> None:
        with _Connection(self._path, self._timeout) as connection:
            connection.call("SetUnitProperties", "sba(sv)", (name, True, _rows(properties)))

    def stop(self, name: str) -> None:
        self._job(name, "StopUnit", "ss", (name, "replace"))

    def _job(self, name: str, method: str, signature: str, body: tuple[object, ...]) -> None:
        with _Connection(self._path, self._timeout) as connection:
            answer = connection.call(method, signature, body)
            if len(answer) != 1 or not isinstance(answer[0], str):
                raise Invalid(f"systemd: the answer to {method} of {name} names no job: {answer!r:.200}")
            result = connection.wait_job(answer[0])
        if result not in ("done", "skipped"):
            raise Transient(f"systemd: {method} of {name} ended with {result!r}; see systemctl status {name}")


class _Connection:
    """One direct connection without a message bus: calls are answered in order, signals may come in between."""

    def __init__(self, path: Path, timeout: Seconds) -> None:
        self._path = path
        self._deadline = time.monotonic() + timeout
        self._serial = 0
        self._parser = Parser()
        self._ended: dict[str, str] = {}

    def __enter__(self) -> "_Connection":
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.settimeout(self._left())
            self._socket.connect(str(self._path))
            self._authenticate()
        except OSError as error:
            self._socket.close()
            raise Transient(f"systemd is not responding on {self._path}: {error}") from error
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, member: str, signature: str, body: tuple[object, ...]) -> tuple[Any, ...]:
        """Call a method of the manager and return the body of its reply. Raises Invalid if a value has another type."""
        self._serial += 1
        with malformed(f"systemd: arguments of {member} do not fit {signature}"):
            data = new_method_call(_MANAGER, member, signature, body).serialise(self._serial)
        self._send(data)
        while True:
            answer = self._receive()
            if answer.header.message_type is MessageType.signal:
                self._note(answer)
            elif answer.header.fields.get(HeaderFields.reply_serial) == self._serial:
                if answer.header.message_type is MessageType.error:
                    raise refusal("systemd", member, answer)
                return tuple(answer.body)

    def wait_job(self, job: str) -> str:
        """Wait for the end of a job and return its result."""
        while job not in self._ended:
            self._note(self._receive())
        return self._ended[job]

    def _note(self, signal: Message) -> None:
        # JobRemoved: number, path, unit, result.
        if signal.header.fields.get(HeaderFields.member) == "JobRemoved" and len(signal.body) == 4:
            self._ended[str(signal.body[1])] = str(signal.body[3])

    def _authenticate(self) -> None:
        """Authenticate with SASL EXTERNAL: the kernel tells systemd the user id of this process.

        BEGIN is sent without waiting for the reply. If it were sent later, systemd might read it together with the
        first call and not process that call until more data comes.
        """
        identity = str(os.geteuid()).encode().hex()
        self._socket.sendall(f"\0AUTH EXTERNAL {identity}\r\nBEGIN\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += self._read(1)
        if not answer.startswith(b"OK "):
            reason = answer.decode(errors="replace").strip()
            raise Permanent(f"systemd rejected D-Bus authentication on {self._path}: {reason}")

    def _send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(data)
        except OSError as error:
            raise Transient(f"systemd closed the connection on {self._path}: {error}") from error

    def _receive(self) -> Message:
        """Read one message. Raises Invalid if it is malformed or too long."""
        while (message := self._next_message()) is None:
            missing = self._parser.bytes_desired()
            if missing > MAX_MESSAGE:
                raise Invalid(f"systemd: D-Bus message of {missing} bytes")
            self._parser.add_data(self._read(missing))
        return message

    def _next_message(self) -> Message | None:
        """Return a message if one has been read to its end."""
        with malformed("systemd: malformed D-Bus message"):
            message: Message | None = self._parser.get_next_message()
        return message

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                self._socket.settimeout(self._left())
                piece = self._socket.recv(size - len(data))
            except OSError as error:
                raise Transient(f"systemd is not responding on {self._path}: {error}") from error
            if not piece:
                raise Transient(f"systemd closed the connection on {self._path}")
            data += piece
        return data

    def _left(self) -> Seconds:
        """Time left until the deadline; never zero, which would make the socket non-blocking."""
        return max(0.001, self._deadline - time.monotonic())


def _rows(properties: Iterable[Property]) -> list[tuple[str, tuple[str, Value]]]:
    return [(each.name, (each.signature, each.value)) for each in properties]
