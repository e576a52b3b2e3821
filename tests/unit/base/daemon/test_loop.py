"""Names that no name server answers do not hold up the lookup of others."""

import asyncio
import socket
import threading
import time
from typing import Any

import pytest

from pykubelet.base.daemon import loop


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lookups of names that begin with ``silent`` hang until the event is set."""
    event = threading.Event()
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *rest: Any) -> Any:
        if str(host).startswith("silent"):
            event.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1", *rest)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield event
    event.set()


async def _connects(name: str, port: int) -> bool:
    _, writer = await asyncio.open_connection(name, port)
    writer.close()
    await writer.wait_closed()
    return True


def test_lookup_of_a_name_does_not_wait_for_silent_ones(silent: threading.Event) -> None:
    async def main() -> float:
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            hanging = [asyncio.create_task(_connects(f"silent-{number % 20}", port)) for number in range(100)]
            await asyncio.sleep(0)
            begun = time.monotonic()
            assert await _connects("api-server", port)
            took = time.monotonic() - begun
            silent.set()
            outcomes = await asyncio.gather(*hanging, return_exceptions=True)
            assert all(isinstance(outcome, socket.gaierror) for outcome in outcomes)
            return took

    assert loop.run_daemon(main()) < 5  # 80 lookups at a time, eight new ones every 50 ms


def test_silent_name_is_given_up_with_an_error_that_names_it(
    silent: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_LOOKUP", 0.1)

    async def main() -> None:
        with pytest.raises(socket.gaierror, match="no answer about the name silent"):
            await asyncio.open_connection("silent", 1)

    loop.run_daemon(main())


@pytest.mark.parametrize("name", ["a" * 64, "a..b", "x" * 300, "\ud800", "\u00e9" * 80])
def test_name_that_no_server_can_be_asked_for_is_an_unknown_name(name: str) -> None:
    async def main() -> None:
        with pytest.raises(socket.gaierror, match="is not a valid host name"):
            await asyncio.get_running_loop().getaddrinfo(name, 80)

    loop.run_daemon(main())
