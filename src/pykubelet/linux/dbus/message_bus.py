"""A connection to the system's D-Bus message bus, on the event loop: calls with deadlines, signals, descriptors.

jeepney encodes and decodes the messages, as in `linux/systemd.py`; its own asyncio connection cannot receive
descriptors. Only what the agent needs is here: it calls methods and receives signals, and serves no calls.

Source: the D-Bus specification.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from jeepney.auth import BEGIN, AuthenticationError, Authenticator
from jeepney.bus import get_connectable_addresses
from jeepney.fds import FileDescriptor, fds_buf_size
from jeepney.low_level import HeaderFields, Message, MessageType, Parser
from jeepney.wrappers import DBusAddress, new_method_call

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.errors import Invalid, Permanent, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.dbus.messages import MAX_MESSAGE, malformed, refusal

CALL_SECONDS: Final[Seconds] = 10.0
"""Deadline of a call, and of opening a connection."""
_SYSTEM_BUS: Final = "unix:path=/var/run/dbus/system_bus_socket"
_BUS: Final = DBusAddress("/org/freedesktop/DBus", bus_name="org.freedesktop.DBus", interface="org.freedesktop.DBus")


def system_bus_path() -> str:
    """Return the path of the system bus's socket, which begins with a zero byte if it is abstract.

    ``DBUS_SYSTEM_BUS_ADDRESS`` overrides it. Raises Invalid if that is no address of a unix socket.
    """
    address = os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or _SYSTEM_BUS
    try:
        return str(next(get_connectable_addresses(address)))
    except (ValueError, LookupError, RuntimeError) as error:
        raise Invalid(f"DBUS_SYSTEM_BUS_ADDRESS: {address!r} is no address of a unix socket: {error}") from error


class MessageBus:
    """One open connection; see `open_bus`."""

    def __init__(self, connection: socket.socket, peer: str) -> None:
        self._socket = connection
        self._peer = peer
        self._parser = Parser()
        self._serial = 0
        self._replies: dict[int, asyncio.Future[Message]] = {}
        self._sending = asyncio.Lock()
        self.signals: Callbacks[[Message]] = Callbacks()
        """Called with each signal that the bus delivers, from any sender."""
        self.closed: asyncio.Future[PykubeletError] = asyncio.get_running_loop().create_future()
        """The reason why the connection was lost, once it is."""

    async def call(self, target: DBusAddress, member: str, signature: str = "", body: tuple[object, ...] = ()) -> Any:
        """Call a method and return the first value of its reply (None: it has none).

        The caller owns a descriptor in it. Raises the errors of `linux.dbus.messages.refusal`, Invalid if a value does
        not fit the signature, and Transient if the connection is lost or no reply comes within `CALL_SECONDS`.
        """
        if self.closed.done():
            raise self.closed.result()
        self._serial += 1
        serial = self._serial
        with malformed(f"{self._peer}: arguments of {member} do not fit {signature}"):
            data = new_method_call(target, member, signature or None, body).serialise(serial)
        reply = self._replies[serial] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                async with self._sending:
                    await asyncio.get_running_loop().sock_sendall(self._socket, data)
                answer = await reply
        except TimeoutError as error:
            raise Transient(f"{self._peer}: no reply to {member} of {target.bus_name} in {CALL_SECONDS:g} s") from error
        except OSError as error:
            raise Transient(f"{self._peer} closed the connection: {error}") from error
        finally:
            del self._replies[serial]
        if answer.header.message_type is MessageType.error:
            raise refusal(str(target.bus_name), member, answer)
        return answer.body[0] if answer.body else None

    async def call_bus(self, member: str, signature: str = "", body: tuple[object, ...] = ()) -> Any:
        """Call a method of the bus itself; see `call`."""
        return await self.call(_BUS, member, signature, body)

    def start(self) -> None:
        """Begin to read messages."""
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    def close(self, why: PykubeletError) -> None:
        """Stop reading; calls that wait, and `closed`, get ``why``. Idempotent."""
        if self.closed.done():
            return
        asyncio.get_running_loop().remove_reader(self._socket)
        self.closed.set_result(why)
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(why)

    def _readable(self) -> None:
        try:
            while not self.closed.done():
                self._read()
        except BlockingIOError:
            return
        except PykubeletError as error:
            self.close(error)
        except OSError as error:
            self.close(Transient(f"{self._peer} closed the connection: {error}"))

    def _read(self) -> None:
        """Read up to the end of one message, so that descriptors stay with their message."""
        with malformed(f"{self._peer}: malformed D-Bus message"):
            missing = self._parser.bytes_desired()
        if missing > MAX_MESSAGE:
            raise Invalid(f"{self._peer}: D-Bus message of {missing} bytes")
        data, ancillary, _, _ = self._socket.recvmsg(missing, fds_buf_size(), socket.MSG_CMSG_CLOEXEC)
        descriptors = FileDescriptor.from_ancdata(ancillary)
        if not data:
            raise Transient(f"{self._peer} closed the connection")
        self._parser.add_data(data, descriptors)
        with malformed(f"{self._peer}: malformed D-Bus message"):
            message = self._parser.get_next_message()
        if message is not None:
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        reply = self._replies.get(message.header.fields.get(HeaderFields.reply_serial, 0))
        if reply is not None and not reply.done():
            reply.set_result(message)
            return
        if message.header.message_type is MessageType.signal:
            self.signals(message)
        for value in message.body:
            if isinstance(value, FileDescriptor):
                value.close()


@asynccontextmanager
async def open_bus(path: str) -> AsyncIterator[MessageBus]:
    """Connect to the message bus at ``path``.

    Raises Transient if the bus is not responding, Permanent if it refuses this process.
    """
    name = f"D-Bus on {path}".replace("\0", "@")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK) as connection:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await asyncio.get_running_loop().sock_connect(connection, path)
                await _authenticate(connection, name)
        except TimeoutError as error:
            raise Transient(f"{name} is not responding") from error
        except OSError as error:
            raise Transient(f"{name} is not responding: {error}") from error
        bus = MessageBus(connection, name)
        bus.start()
        try:
            await bus.call_bus("Hello")
            yield bus
        finally:
            bus.close(Transient(f"{name}: the connection was closed"))


async def _authenticate(connection: socket.socket, name: str) -> None:
    """Authenticate with SASL EXTERNAL, and negotiate the passing of descriptors."""
    loop, conversation = asyncio.get_running_loop(), Authenticator(enable_fds=True)
    try:
        for request in conversation:
            await loop.sock_sendall(connection, request)
            if not (answer := await loop.sock_recv(connection, 4096)):
                raise Transient(f"{name} closed the connection")
            conversation.feed(answer)
        await loop.sock_sendall(connection, BEGIN)
    except AuthenticationError as error:
        raise Permanent(f"{name} rejected D-Bus authentication: {error}") from error
