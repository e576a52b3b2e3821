"""Retried creations."""

import asyncio

import pytest

from pykubelet.base.errors import Conflict, Transient
from pykubelet.criserver.server.creations import Creations
from pykubelet.testing.wait import until


class Maker:
    """Counts creations; each waits until it is released."""

    def __init__(self) -> None:
        self.made = 0
        self.go = asyncio.Event()
        self.fail: Exception | None = None

    async def create(self) -> str:
        self.made += 1
        await self.go.wait()
        if self.fail is not None:
            raise self.fail
        return f"id-{self.made}"


async def test_a_second_caller_joins_the_first() -> None:
    async with asyncio.TaskGroup() as tasks:
        creations: Creations[str] = Creations(tasks)
        maker = Maker()
        calls = [asyncio.ensure_future(creations.run("a", b"x", maker.create)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Conflict, match="in progress"):
            await creations.run("a", b"other", maker.create)
        maker.go.set()
        assert await asyncio.gather(*calls) == ["id-1", "id-1"]
    assert maker.made == 1


async def test_creation_continues_without_its_client_and_is_joined_by_a_retry() -> None:
    async with asyncio.TaskGroup() as tasks:
        creations: Creations[str] = Creations(tasks)
        maker = Maker()
        call = asyncio.ensure_future(creations.run("a", b"x", maker.create))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        retry = asyncio.ensure_future(creations.run("a", b"x", maker.create))
        await asyncio.sleep(0)
        maker.go.set()
        assert await retry == "id-1"


async def test_finished_creation_is_not_kept() -> None:
    """The manager answers the next request, whether a client received the result or not."""
    async with asyncio.TaskGroup() as tasks:
        creations: Creations[str] = Creations(tasks)
        maker = Maker()
        maker.go.set()
        for number in range(3):
            call = asyncio.ensure_future(creations.run(str(number), b"x", maker.create))
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
        await until(lambda: maker.made == 3)
        await asyncio.sleep(0)
        assert creations._pending == {}
        assert await creations.run("0", b"other", maker.create) == "id-4"


async def test_failure_is_returned_without_ending_the_server() -> None:
    async with asyncio.TaskGroup() as tasks:
        creations: Creations[str] = Creations(tasks)
        maker = Maker()
        maker.go.set()
        maker.fail = Transient("no address")
        with pytest.raises(Transient, match="no address"):
            await creations.run("a", b"x", maker.create)
        maker.fail = None
        assert await creations.run("a", b"x", maker.create) == "id-2"
