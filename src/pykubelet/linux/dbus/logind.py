"""Client of systemd-logind on the system's message bus: inhibitor locks, and the start of a shutdown.

A process that holds an inhibitor lock of mode ``delay`` delays a shutdown by at most ``InhibitDelayMaxSec``: logind
announces it with the signal PrepareForShutdown and waits until all such locks are released.

Source: org.freedesktop.login1(5), logind.conf(5), https://systemd.io/INHIBITOR_LOCKS.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from jeepney.bus_messages import MatchRule
from jeepney.fds import FileDescriptor
from jeepney.low_level import HeaderFields, Message
from jeepney.wrappers import DBusAddress

from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.linux.dbus.message_bus import MessageBus, open_bus

_NAME: Final = "org.freedesktop.login1"
_PATH: Final = "/org/freedesktop/login1"
_INTERFACE: Final = "org.freedesktop.login1.Manager"
_SIGNAL: Final = "PrepareForShutdown"
_MANAGER: Final = DBusAddress(_PATH, bus_name=_NAME, interface=_INTERFACE)
_PROPERTIES: Final = DBusAddress(_PATH, bus_name=_NAME, interface="org.freedesktop.DBus.Properties")
_SYSTEMD: Final = DBusAddress(
    "/org/freedesktop/systemd1",
    bus_name="org.freedesktop.systemd1",
    interface="org.freedesktop.systemd1.Manager",
)
_ANNOUNCEMENTS: Final = MatchRule(type="signal", sender=_NAME, path=_PATH, interface=_INTERFACE, member=_SIGNAL)
_BUS_NAME: Final = "org.freedesktop.DBus"
_OWNER_CHANGED: Final = "NameOwnerChanged"
_SIGHUP: Final = 1


class InhibitorLock:
    """A held inhibitor lock; the shutdown goes on when it is released, or when this process ends."""

    def __init__(self, descriptor: FileDescriptor) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. Idempotent."""
        self._descriptor.close()


class Logind:
    """logind on one connection; see `open_logind`."""

    def __init__(self, bus: MessageBus, owner: str) -> None:
        """``owner``: logind's unique name on the bus."""
        self._bus = bus
        self._owner = owner
        self._preparing = False
        self._news = asyncio.Event()
        self._lost: PykubeletError | None = None
        bus.signals.subscribe(self._signalled)
        bus.closed.add_done_callback(lambda closed: self._end(closed.result()))

    async def max_delay(self) -> Seconds:
        """Return the longest time that a lock can delay a shutdown (``InhibitDelayMaxSec`` of logind.conf)."""
        value = await self._property("InhibitDelayMaxUSec")
        if not isinstance(value, int):
            raise Invalid(f"logind: InhibitDelayMaxUSec is {value!r}, not a number")
        return value / 1e6

    async def preparing(self) -> bool:
        """Return whether a shutdown has been announced and not been cancelled."""
        return await self._property("PreparingForShutdown") is True

    async def inhibit(self, who: str, why: str) -> InhibitorLock:
        """Take a lock that delays shutdowns; ``systemd-inhibit --list`` shows ``who`` and ``why``."""
        found = await self._bus.call(_MANAGER, "Inhibit", "ssss", ("shutdown", who, why, "delay"))
        if not isinstance(found, FileDescriptor):
            raise Invalid(f"logind: the reply to Inhibit is {found!r}, not a descriptor")
        return InhibitorLock(found)

    async def reload(self) -> None:
        """Have logind read its configuration again; returns before it has."""
        await self._bus.call(_SYSTEMD, "KillUnit", "ssi", ("systemd-logind.service", "all", _SIGHUP))

    async def next_change(self) -> bool:
        """Wait for the next announcement and return whether a shutdown begins (False: it was cancelled).

        Raises Transient when logind or the connection ends.
        """
        await self._news.wait()
        self._news.clear()
        if self._lost is not None:
            raise self._lost
        return self._preparing

    def _signalled(self, message: Message) -> None:
        """Handle a signal of the bus. Any user of the machine can send signals to any process: only those of logind
        and of the bus itself count."""
        fields = message.header.fields
        sender, member = fields.get(HeaderFields.sender), fields.get(HeaderFields.member)
        if member == _SIGNAL and fields.get(HeaderFields.interface) == _INTERFACE and sender == self._owner:
            if message.body and isinstance(message.body[0], bool):
                self._preparing = message.body[0]
                self._news.set()
        elif member == _OWNER_CHANGED and sender == _BUS_NAME and message.body[:1] == (_NAME,):
            self._end(Transient("logind has been restarted or stopped"))

    def _end(self, why: PykubeletError) -> None:
        if self._lost is None:
            self._lost = why
        self._news.set()

    async def _property(self, name: str) -> Any:
        return await _read_property(self._bus, name)


async def _read_property(bus: MessageBus, name: str) -> Any:
    _, value = await bus.call(_PROPERTIES, "Get", "ss", (_INTERFACE, name))
    return value


@asynccontextmanager
async def open_logind(bus_path: str) -> AsyncIterator[Logind]:
    """Connect to logind on the message bus at ``bus_path``.

    Raises Transient if the bus or logind is not responding or not installed, Permanent if it refuses this process.
    """
    async with open_bus(bus_path) as bus:
        await _read_property(bus, "PreparingForShutdown")  # starts logind if it does not run
        owner = await bus.call_bus("GetNameOwner", "s", (_NAME,))
        logind = Logind(bus, owner)
        for rule in (_ANNOUNCEMENTS, _owner_changes()):
            await bus.call_bus("AddMatch", "s", (rule.serialise(),))
        if await bus.call_bus("GetNameOwner", "s", (_NAME,)) != owner:
            raise Transient("logind has been restarted")
        yield logind


def _owner_changes() -> MatchRule:
    rule = MatchRule(type="signal", sender=_BUS_NAME, interface=_BUS_NAME, member=_OWNER_CHANGED)
    rule.add_arg_condition(0, _NAME)
    return rule
