"""Waits for a condition with a limit, instead of fixed sleeps."""

import asyncio
from collections.abc import Callable

from pykubelet.base.units import Seconds
from pykubelet.testing.patience import PATIENCE

_POLL: Seconds = 0.005


async def until(condition: Callable[[], object], seconds: Seconds = 30.0) -> None:
    """Let the event loop run until the condition holds. AssertionError after ``seconds`` (times PATIENCE)."""
    limit = asyncio.timeout(seconds * PATIENCE)
    try:
        async with limit:
            while not condition():  # noqa: ASYNC110 - what runs beside the test sets no event
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        raise AssertionError(f"not within {seconds * PATIENCE:g} s") from error
