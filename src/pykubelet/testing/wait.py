"""Waits for a condition with a limit, instead of fixed sleeps.

``until`` and ``until_answer`` wait for a condition, ``settle`` runs the event loop until it is idle, and
``nothing_within`` is the last resort to verify that other processes or threads do not do something, if no later event
proves that they would have done it by now. ``held_calls`` is for tests that hold blocking calls, so that ``settle`` and
the virtual clock do not wait for these. ``steps_of_another_task`` counts how often another task runs. Tests without
an event loop use ``wait_for`` and ``nothing_within`` of ``testing.agent``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from pykubelet.base.concurrency import blocking
from pykubelet.base.units import Seconds
from pykubelet.testing.patience import PATIENCE

_T = TypeVar("_T")
_POLL: Final[Seconds] = 0.005
_IDLE_ROUNDS: Final = 3
_LONGEST: Final[Seconds] = 30.0
_HANGING: Final[Seconds] = 10.0
_HELD: Final[Seconds] = 0.05
_patience: Final[list[Seconds]] = [_HANGING * PATIENCE]
"""Limits of the wait for a blocking call; the last one is in force."""


def awaits_blocking_calls() -> bool:
    """Whether blocking calls of this event loop run that have to be waited for.

    All are, however busy the machine is; a call that takes longer than 10 s (times PATIENCE) counts as hanging. It is
    not waited for, nor is one that missed its deadline.
    """
    return blocking.running_calls(_patience[-1]) > 0


@contextmanager
def held_calls() -> Iterator[None]:
    """Wait only a moment for blocking calls within the block, since the test holds them itself."""
    _patience.append(_HELD)
    try:
        yield
    finally:
        _patience.pop()


async def until(condition: Callable[[], object], seconds: Seconds = 30.0) -> None:
    """Let the event loop run until the condition holds. AssertionError after ``seconds`` (times PATIENCE)."""
    limit = asyncio.timeout(seconds * PATIENCE)
    try:
        async with limit:
            while not condition():  # noqa: ASYNC110 - code outside the test sets no event
                await asyncio.sleep(_POLL)
    except TimeoutError as error:
        raise AssertionError(f"not within {seconds * PATIENCE:g} s") from error


class LoopSteps:
    """Number of times that another task has run in the event loop."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        """Run in each iteration of the event loop until cancelled."""
        while True:
            self.count += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def steps_of_another_task() -> AsyncIterator[LoopSteps]:
    """Count the steps of another task meanwhile, to see that long work does not block the event loop."""
    steps = LoopSteps()
    task = asyncio.create_task(steps.run())
    try:
        yield steps
    finally:
        task.cancel()


async def until_answer(ask: Callable[[], Awaitable[_T]], seconds: Seconds = 30.0) -> _T:
    """Poll another process until its answer is true; returns the answer. AssertionError as ``until``."""
    try:
        async with asyncio.timeout(seconds * PATIENCE):
            while not (answer := await ask()):  # noqa: ASYNC110 - the other process sets no event
                await asyncio.sleep(_POLL)
            return answer
    except TimeoutError as error:
        raise AssertionError(f"not within {seconds * PATIENCE:g} s") from error


async def settle(seconds: Seconds = 0.1) -> None:
    """Let the event loop do all the work that it would do within ``seconds``, and return as soon as it is done.

    Afterwards no callback is ready, no timer within that time is pending, no socket of this process has unread data
    from another, and no blocking call runs, except hanging ones. It does not wait for other threads and processes.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    found_idle = False
    while loop.time() < end + _LONGEST * PATIENCE:
        if not await _idle(loop) or awaits_blocking_calls():
            found_idle = False
            await asyncio.sleep(_POLL)
        elif (due := _next_timer(loop)) is not None and due <= end:
            found_idle = False
            await asyncio.sleep(max(due - loop.time(), 0))
        elif found_idle:
            return
        else:  # again: on a busy machine the kernel delivers written data a moment later
            found_idle = True
            await asyncio.sleep(_POLL)
    raise AssertionError(f"the event loop is still busy after {_LONGEST * PATIENCE:g} s; a task is spinning")


async def nothing_within(condition: Callable[[], object], seconds: Seconds) -> None:
    """Let the event loop run for ``seconds``. AssertionError as soon as the condition holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        if loop.time() >= end:
            return
        await asyncio.sleep(_POLL)
    raise AssertionError(f"it came about {seconds - (end - loop.time()):.3f} s after the start")


async def _idle(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether no other callback was ready for some iterations, each of which also polls the sockets."""
    # CPython keeps runnable callbacks in `_ready`; if it is empty now, no other callback is ready.
    ready: object = getattr(loop, "_ready", None)
    for _ in range(_IDLE_ROUNDS):
        await asyncio.sleep(0)
        if ready:
            return False
    return True


def _next_timer(loop: asyncio.AbstractEventLoop) -> Seconds | None:
    timers: Iterable[asyncio.TimerHandle] = getattr(loop, "_scheduled", ())
    return min((timer.when() for timer in timers if not timer.cancelled()), default=None)
