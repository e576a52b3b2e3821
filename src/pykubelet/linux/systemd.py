"""Client of systemd: starts, changes and stops transient units. Blocking.

It uses systemd's private socket, which is open to root and needs no message bus. Each operation has its own connection:
operations are rare (a pod starts or ends), and systemd may be restarted between two of them.

Source: org.freedesktop.systemd1(5).
"""

import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.base.errors import Conflict, Invalid, NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.linux import dbus_wire as wire
from pykubelet.linux.dbus_wire import Kind, Message, Value, Variant

_SOCKET = Path("/run/systemd/private")
_BOOTED = Path("/run/systemd/system")
_TIMEOUT: Seconds = 30.0
_MANAGER = "org.freedesktop.systemd1.Manager"
_PATH = "/org/freedesktop/systemd1"
_ERRORS: dict[str, type[PykubeletError]] = {
    "org.freedesktop.systemd1.NoSuchUnit": NotFound,
    "org.freedesktop.systemd1.UnitExists": Conflict,
    "org.freedesktop.DBus.Error.InvalidArgs": Invalid,
    "org.freedesktop.DBus.Error.AccessDenied": Permanent,
    "org.freedesktop.DBus.Error.UnknownProperty": Invalid,
    "org.freedesktop.DBus.Error.PropertyReadOnly": Invalid,
}


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a unit with its D-Bus type (``t``: 64-bit integer, ``b``: boolean, ``as``: strings)."""

    name: str
    signature: str
    value: Value


class Units(Protocol):
    """Operations on systemd units."""

    def start_transient(self, name: str, properties: Iterable[Property]) -> None:
        """Create and start a unit; returns when it runs. Raises Conflict if a unit of that name exists."""
        ...

    def set_properties(self, name: str, properties: Iterable[Property]) -> None:
        """Change a unit until the next boot. Raises NotFound if the unit does not exist."""
        ...

    def stop(self, name: str) -> None:
        """Stop a unit and all its processes; returns when it has ended. Raises NotFound if the unit does not exist."""
        ...


def is_running() -> bool:
    """Whether systemd is the init of this machine and its private socket is accessible."""
    return _BOOTED.is_dir() and _SOCKET.exists()


class Systemd:
    """`Units` of the system manager."""

    def __init__(self, path: Path = _SOCKET, timeout: Seconds = _TIMEOUT) -> None:
        self._path = path
        self._timeout = timeout

    def start_transient(self, name: str, properties: Iterable[Property]) -> None:
        self._job(name, "StartTransientUnit", "ssa(sv)a(sa(sv))", (name, "replace", _rows(properties), []))

    def set_properties(self, name: str, properties: Iterable[Property]) -> None:
        with _Connection(self._path, self._timeout) as connection:
            connection.call("SetUnitProperties", "sba(sv)", (name, True, _rows(properties)))

    def stop(self, name: str) -> None:
        self._job(name, "StopUnit", "ss", (name, "replace"))

    def _job(self, name: str, method: str, signature: str, body: tuple[Value, ...]) -> None:
        with _Connection(self._path, self._timeout) as connection:
            (job,) = connection.call(method, signature, body)
            result = connection.wait_job(job)
        if result not in ("done", "skipped"):
            raise Transient(f"systemd: {method} of {name} ended with {result!r}; see systemctl status {name}")


class _Connection:
    """One direct connection without a message bus: calls are answered in order, signals may come in between."""

    def __init__(self, path: Path, timeout: Seconds) -> None:
        self._path = path
        self._deadline = time.monotonic() + timeout
        self._serial = 0
        self._ended: dict[Value, str] = {}

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

    def call(self, member: str, signature: str, body: tuple[Value, ...]) -> tuple[Value, ...]:
        """Call a method of the manager and return the body of its reply."""
        self._serial += 1
        message = Message(
            Kind.CALL,
            self._serial,
            path=_PATH,
            interface=_MANAGER,
            member=member,
            destination="org.freedesktop.systemd1",
            signature=signature,
            body=body,
        )
        self._send(wire.encode(message))
        while True:
            answer = self._receive()
            if answer.kind is Kind.SIGNAL:
                self._note(answer)
            elif answer.reply_to == self._serial:
                if answer.kind is Kind.ERROR:
                    raise _error(member, answer)
                return answer.body

    def wait_job(self, job: Value) -> str:
        """Wait for the end of a job and return its result."""
        while job not in self._ended:
            self._note(self._receive())
        return self._ended[job]

    def _note(self, signal: Message) -> None:
        # JobRemoved: number, path, unit, result.
        if signal.member == "JobRemoved" and len(signal.body) == 4:
            self._ended[signal.body[1]] = str(signal.body[3])

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
        prefix = self._read(wire.PREFIX_SIZE)
        return wire.decode(prefix + self._read(wire.length(prefix) - wire.PREFIX_SIZE))

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


def _rows(properties: Iterable[Property]) -> list[Value]:
    return [(each.name, Variant(each.signature, each.value)) for each in properties]


def _error(member: str, answer: Message) -> PykubeletError:
    text = answer.body[0] if answer.body else ""
    kind = _ERRORS.get(answer.error, Transient)
    return kind(f"systemd refused {member}: {text} ({answer.error})")
