"""A real dbus-daemon on a private socket, and on it a stand-in for logind and for the part of systemd that it needs."""

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jeepney.bus_messages import message_bus
from jeepney.fds import FileDescriptor
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.low_level import HeaderFields, Message, MessageType
from jeepney.wrappers import DBusAddress, new_error, new_method_return, new_signal

from pykubelet.testing.agent import wait_for

_MANAGER: Final = DBusAddress("/org/freedesktop/login1", interface="org.freedesktop.login1.Manager")
_CONFIG: Final = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={path}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
</busconfig>
"""


def missing() -> str:
    """The reason why no bus can be started on this machine; empty: one can."""
    return "" if shutil.which("dbus-daemon") else "needs a message bus: apt-get install dbus-daemon"


class PrivateBus:
    """A dbus-daemon for one test."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.path = home / "bus"
        self._config = home / "bus.conf"
        self._config.write_text(_CONFIG.format(path=self.path))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon; returns when it accepts connections."""
        self.path.unlink(missing_ok=True)
        command = ["dbus-daemon", f"--config-file={self._config}", "--nofork", "--nopidfile", "--nosyslog"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        wait_for(self._accepts, 20, lambda: "dbus-daemon does not accept connections")

    def stop(self) -> None:
        """Kill the daemon. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.path)) == 0


@dataclass
class Lock:
    """An inhibitor lock that a client of the stand-in took."""

    arguments: tuple[str, ...]
    """The arguments ``what``, ``who``, ``why`` and ``mode`` of Inhibit."""
    reader: int

    @property
    def held(self) -> bool:
        """Whether the client still has it."""
        try:
            return os.read(self.reader, 1) != b""
        except BlockingIOError:
            return True


@dataclass
class FakeLogind:
    """Serves org.freedesktop.login1 and org.freedesktop.systemd1 in a thread."""

    bus: PrivateBus
    max_delay_usec: int = 5_000_000
    max_delay_after_reload_usec: int | None = None
    """None: a reload changes nothing."""
    locks: list[Lock] = field(default_factory=list)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    """Member and arguments of all calls except reads of properties."""
    preparing: bool = False
    _connection: DBusConnection | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Take the names on the bus and serve them."""
        self._connection = open_dbus_connection(f"unix:path={self.bus.path}", enable_fds=True)
        for name in ("org.freedesktop.login1", "org.freedesktop.systemd1"):
            self._connection.send_and_get_reply(message_bus.RequestName(name))
        self._thread = threading.Thread(target=self._serve, args=(self._connection,), name="logind", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the bus, as logind does when it is restarted; held locks stay. Idempotent."""
        if self._connection is not None and self._thread is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._connection.close()
            self._connection = self._thread = None

    def announce(self, begins: bool) -> None:
        """Announce a shutdown, or its cancellation."""
        self.preparing = begins
        assert self._connection is not None
        self._connection.send(new_signal(_MANAGER, "PrepareForShutdown", "b", (begins,)))

    @property
    def held(self) -> list[Lock]:
        """The locks that are held now."""
        return [lock for lock in tuple(self.locks) if lock.held]

    def close(self) -> None:
        """Stop, and close the descriptors of all locks."""
        self.stop()
        for lock in self.locks:
            os.close(lock.reader)
        self.locks.clear()

    def _serve(self, connection: DBusConnection) -> None:
        while True:
            try:
                call = connection.receive()
            except (OSError, EOFError):
                return
            if call.header.message_type is MessageType.method_call:
                with contextlib.suppress(OSError):
                    self._answer(connection, call)

    def _answer(self, connection: DBusConnection, call: Message) -> None:
        member = call.header.fields[HeaderFields.member]
        if member == "Get":
            values = {"InhibitDelayMaxUSec": ("t", self.max_delay_usec), "PreparingForShutdown": ("b", self.preparing)}
            connection.send(new_method_return(call, "v", (values[call.body[1]],)))
            return
        self.calls.append((member, *call.body))
        if member == "Inhibit" and self.preparing:
            name = "org.freedesktop.login1.OperationInProgress"
            connection.send(new_error(call, name, "s", ("The operation inhibition has been requested for runs",)))
        elif member == "Inhibit":
            reader, writer = os.pipe2(os.O_CLOEXEC)
            fcntl.fcntl(reader, fcntl.F_SETFL, os.O_NONBLOCK)
            self.locks.append(Lock(tuple(call.body), reader))
            with FileDescriptor(writer) as descriptor:
                connection.send(new_method_return(call, "h", (descriptor,)))
        elif member == "KillUnit":
            if self.max_delay_after_reload_usec is not None:
                self.max_delay_usec = self.max_delay_after_reload_usec
            connection.send(new_method_return(call))


@contextlib.contextmanager
def fake_logind(home: Path, max_delay_usec: int = 5_000_000) -> Iterator[FakeLogind]:
    """Run a private bus with the stand-in on it."""
    bus = PrivateBus(home)
    logind = FakeLogind(bus, max_delay_usec)
    try:
        bus.start()
        logind.start()
        yield logind
    finally:
        logind.close()
        bus.stop()
