"""A lock that many tasks hold together, or one alone if it is free."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class SharedLock:
    """Held by any number of sharers, or by one exclusive holder, which never waits: sharers are more urgent."""

    def __init__(self) -> None:
        self._sharers = 0
        self._alone = False
        self._free = asyncio.Event()
        self._free.set()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold it with others; waits for an exclusive holder."""
        while self._alone:
            await self._free.wait()
        self._sharers += 1
        try:
            yield
        finally:
            self._sharers -= 1

    @contextmanager
    def exclusive(self) -> Iterator[bool]:
        """Hold it alone; False: it is held already, so the block does not hold it."""
        if self._alone or self._sharers:
            yield False
            return
        self._alone = True
        self._free.clear()
        try:
            yield True
        finally:
            self._alone = False
            self._free.set()
