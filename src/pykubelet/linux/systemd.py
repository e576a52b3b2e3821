"""Talks to systemd about units: transient ones made, changed and stopped. Blocking.

Over systemd's own socket, which root may use and which needs no message bus. One connection an operation: they are
rare (a pod that comes or goes) and systemd may be restarted between two.

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
    """A property of a unit, typed as D-Bus types it (``t``: 64 bits, ``b``: boolean, ``as``: texts)."""

    name: str
    signature: str
    value: Value


class Units(Protocol):
    """What is asked of systemd."""

    def start_transient(self, name: str, properties: Iterable[Property]) -> None:
        """Make and start a unit; returns when it runs. Conflict: there is one of that name."""
        ...

    def set_properties(self, name: str, properties: Iterable[Property]) -> None:
        """Change a unit until the next boot. NotFound: there is no such unit."""
        ...

    def stop(self, name: str) -> None:
        """Stop a unit with all in it; returns when it has ended. NotFound: there is no such unit."""
        ...


def is_running() -> bool:
    """Whether systemd is this machine's init, and its socket within our reach."""
    return _BOOTED.is_dir() and _SOCKET.exists()


class Systemd:
    """`Units` of the system's manager."""

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
    """One connection without a bus between: calls are answered in order, signals come in between."""

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
            raise Transient(f"systemd does not answer on {self._path}: {error}") from error
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, member: str, signature: str, body: tuple[Value, ...]) -> tuple[Value, ...]:
        """Call the manager; what it answers."""
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
        """How a job ended."""
        while job not in self._ended:
            self._note(self._receive())
        return self._ended[job]

    def _note(self, signal: Message) -> None:
        # JobRemoved: number, path, unit, result.
        if signal.member == "JobRemoved" and len(signal.body) == 4:
            self._ended[signal.body[1]] = str(signal.body[3])

    def _authenticate(self) -> None:
        """SASL EXTERNAL: the kernel tells the other side who we are.

        BEGIN goes along without waiting for the answer. Sent later, systemd may read it together with the first
        call, which then lies unseen until more comes.
        """
        identity = str(os.geteuid()).encode().hex()
        self._socket.sendall(f"\0AUTH EXTERNAL {identity}\r\nBEGIN\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n"):
            answer += self._read(1)
        if not answer.startswith(b"OK "):
            raise Permanent(f"systemd refuses us on {self._path}: {answer.decode(errors='replace').strip()}")

    def _send(self, data: bytes) -> None:
        try:
            self._socket.settimeout(self._left())
            self._socket.sendall(data)
        except OSError as error:
            raise Transient(f"systemd went away on {self._path}: {error}") from error

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
                raise Transient(f"systemd does not answer on {self._path}: {error}") from error
            if not piece:
                raise Transient(f"systemd closed the connection on {self._path}")
            data += piece
        return data

    def _left(self) -> Seconds:
        """Never zero, which would mean not to block."""
        return max(0.001, self._deadline - time.monotonic())


def _rows(properties: Iterable[Property]) -> list[Value]:
    return [(each.name, Variant(each.signature, each.value)) for each in properties]


def _error(member: str, answer: Message) -> PykubeletError:
    text = answer.body[0] if answer.body else ""
    kind = _ERRORS.get(answer.error, Transient)
    return kind(f"systemd refused {member}: {text} ({answer.error})")
