"""logind's client against a real message bus with a stand-in for logind."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection
from jeepney.low_level import HeaderFields
from jeepney.wrappers import DBusAddress, new_signal

from pykubelet.base.errors import Invalid, PykubeletError, Transient
from pykubelet.linux.dbus.logind import open_logind
from pykubelet.linux.dbus.message_bus import open_bus, system_bus_path
from pykubelet.testing.fake_logind import FakeLogind, fake_logind, missing
from pykubelet.testing.wait import until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture
def logind(tmp_path: Path) -> Iterator[FakeLogind]:
    with fake_logind(tmp_path) as made:
        yield made


def path_of(logind: FakeLogind) -> str:
    return str(logind.bus.path)


async def test_lock_is_held_until_it_is_released(logind: FakeLogind) -> None:
    async with open_logind(path_of(logind)) as client:
        lock = await client.inhibit("kubelet", "because")
        (held,) = logind.held
        assert held.arguments == ("shutdown", "kubelet", "because", "delay")
        lock.release()
        await until(lambda: not logind.held)
        lock.release()


async def test_lock_outlives_the_connection(logind: FakeLogind) -> None:
    async with open_logind(path_of(logind)) as client:
        lock = await client.inhibit("kubelet", "because")
    assert len(logind.held) == 1
    lock.release()
    await until(lambda: not logind.held)


async def test_logind_is_asked_for_delay_and_reload(logind: FakeLogind) -> None:
    logind.max_delay_after_reload_usec = 90_500_000
    async with open_logind(path_of(logind)) as client:
        assert await client.max_delay() == 5.0
        await client.reload()
        assert await client.max_delay() == 90.5
        assert not await client.preparing()
        logind.preparing = True
        assert await client.preparing()
    assert ("KillUnit", "systemd-logind.service", "all", 1) in logind.calls


async def test_announcements_are_received(logind: FakeLogind) -> None:
    async with open_logind(path_of(logind)) as client:
        logind.announce(True)
        assert await client.next_change() is True
        logind.announce(False)
        assert await client.next_change() is False


async def test_announcement_of_another_process_is_ignored(logind: FakeLogind) -> None:
    forged = DBusAddress("/org/freedesktop/login1", interface="org.freedesktop.login1.Manager")
    async with open_logind(path_of(logind)) as client:
        with open_dbus_connection(f"unix:path={logind.bus.path}") as other:
            for name in names_on(other):
                signal = new_signal(forged, "PrepareForShutdown", "b", (True,))
                signal.header.fields[HeaderFields.destination] = name
                other.send(signal)
            names_on(other)  # the bus has handled the signals
        logind.announce(False)
        assert await client.next_change() is False


def names_on(connection: DBusConnection) -> list[str]:
    reply = connection.send_and_get_reply(message_bus.ListNames())
    return [name for name in reply.body[0] if name.startswith(":")]


@pytest.mark.parametrize("end", [FakeLogind.stop, lambda logind: logind.bus.stop()], ids=["logind", "bus"])
async def test_end_of_logind_or_of_the_bus_is_noticed(logind: FakeLogind, end: Callable[[FakeLogind], None]) -> None:
    async with open_logind(path_of(logind)) as client:
        waiting = asyncio.ensure_future(client.next_change())
        await asyncio.to_thread(end, logind)
        with pytest.raises(Transient, match=r"logind has been restarted|closed the connection"):
            await waiting


async def test_lock_is_refused_while_a_shutdown_is_announced(logind: FakeLogind) -> None:
    logind.preparing = True
    async with open_logind(path_of(logind)) as client:
        with pytest.raises(Transient, match="refused Inhibit"):
            await client.inhibit("kubelet", "because")


async def test_bus_without_logind_is_an_error(logind: FakeLogind) -> None:
    logind.stop()
    with pytest.raises(PykubeletError, match="refused Get"):
        async with open_logind(path_of(logind)):
            pass


async def test_missing_bus_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="is not responding"):
        async with open_logind(str(tmp_path / "none")):
            pass


async def test_bus_that_does_not_speak_dbus_is_an_error(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"OK 1234\r\n")
        await reader.readline()
        await reader.readline()
        writer.write(b"AGREE_UNIX_FD\r\n")
        await reader.readline()
        writer.write(b"\xff" * 64)
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(serve, tmp_path / "bus")
    async with server:
        with pytest.raises(Invalid, match="malformed D-Bus message"):
            async with open_bus(str(tmp_path / "bus")):
                pass


def test_bus_address_comes_from_the_environment_or_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBUS_SYSTEM_BUS_ADDRESS", raising=False)
    assert system_bus_path() == "/var/run/dbus/system_bus_socket"
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/a%20b,guid=1")
    assert system_bus_path() == "/a b"
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "tcp:host=h")
    with pytest.raises(Invalid, match="is no address of a unix socket"):
        system_bus_path()
