"""Clocks that shorten or skip the back-offs of clients."""

from pykubelet.base.clock import SystemClock


class QuickClock(SystemClock):
    """A clock with back-offs a hundred times shorter."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds / 100)


class NotedClock(SystemClock):
    """A clock that records back-offs and skips them."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(0)
