"""Event loops that learn late, and in another order, of what is ready: what a busy machine does to a test now and then.

A test that waits for one event and then relies on another one passes on a quiet machine, where both come in the same
round of the loop. The kernel promises neither the round nor the order, so every test must pass with ``late_io`` too.
"""

import asyncio
import random
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_HELD_SHARE = 0.5
_ROUNDS = 8
"""The most rounds in a row in which the loop does not learn of a descriptor."""
_LATE_SECONDS = 0.002


@contextmanager
def late_io(seed: int) -> Iterator[None]:
    """Make the event loops that are created within the block learn late of descriptors and of the results of threads.

    In each round, a random half of the ready descriptors is not reported; a thread that hands a call to a loop waits
    for up to 2 ms first. Loops that exist already see the threads late, but not the descriptors.
    """
    chance = random.Random(seed)
    make, hand_over = asyncio.SelectorEventLoop.__init__, asyncio.BaseEventLoop.call_soon_threadsafe

    class Late(selectors.EpollSelector):
        """A selector that keeps some of the ready descriptors for later rounds."""

        def __init__(self) -> None:
            super().__init__()
            self._held: dict[int, int] = {}

        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            ready = super().select(timeout)
            reported = [each for each in ready if not self._holds(each[0].fd)]
            if ready and not reported:
                time.sleep(_LATE_SECONDS * chance.random() / _ROUNDS)
            chance.shuffle(reported)
            return reported

        def _holds(self, descriptor: int) -> bool:
            rounds = self._held.pop(descriptor, 0)
            if rounds == _ROUNDS or chance.random() > _HELD_SHARE:
                return False
            self._held[descriptor] = rounds + 1
            return True

    def make_late(loop: asyncio.SelectorEventLoop, selector: selectors.BaseSelector | None = None) -> None:
        make(loop, selector or Late())

    def hand_over_late(
        loop: asyncio.BaseEventLoop, callback: Callable[..., object], *args: Any, **options: Any
    ) -> asyncio.Handle:
        if threading.get_ident() != getattr(loop, "_thread_id", None):
            time.sleep(_LATE_SECONDS * chance.random())
        return hand_over(loop, callback, *args, **options)

    asyncio.SelectorEventLoop.__init__ = make_late  # type: ignore[assignment,method-assign]
    asyncio.BaseEventLoop.call_soon_threadsafe = hand_over_late  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        asyncio.SelectorEventLoop.__init__ = make  # type: ignore[method-assign]
        asyncio.BaseEventLoop.call_soon_threadsafe = hand_over  # type: ignore[method-assign]
