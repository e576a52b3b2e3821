"""Blocking calls in threads: a call that hangs delays only its owner.

A thread in a system call on a dead file server or device cannot be stopped. Therefore calls never queue behind those
of other owners: each owner (a pod, a container, a component) may run a few calls at a time, and waits only for its
own. ``thread_calls.py`` runs them, ``thread_pool.py`` has the threads.

All owners together may run a few short calls at a time, which keeps the number of threads small on a healthy node; a
call that takes longer than ``thread_calls.SHORT`` no longer counts. A call that is still running at its deadline hangs:
it is logged, counted and reported to the listeners of ``on_hung``, and its caller gets Transient.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

from pykubelet.base.concurrency.thread_calls import (
    HungCall,
    Job,
    StopFlag,
    hung_calls,
    hung_counts,
    listeners,
    scheduler_of_loop,
)
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

DEADLINE: Final[Seconds] = 120.0
PER_OWNER: Final = 4
"""Calls of one owner at a time."""


async def call(
    owner: str,
    function: Callable[[*_Ts], _T],
    *args: *_Ts,
    deadline: Seconds | None = DEADLINE,
    at_once: int = PER_OWNER,
) -> _T:
    """Run ``function(*args)`` in a thread for this owner (``pod/<uid>``, ``container/<id>``, ``images``).

    Returns its result or raises its error. Raises Transient if the call, including the wait for earlier calls of the
    owner, has not ended within ``deadline`` seconds (None: no limit). The thread of a call that was cancelled or timed
    out goes on. ``at_once``, the number of calls that the owner may run at a time, must be the same in all its calls.
    """
    job = Job(owner, partial(function, *args), deadline=deadline, at_once=at_once)
    scheduler = scheduler_of_loop()
    try:
        if scheduler.start_at_once(job):
            return await job.outcome()
        async with _limited(job):
            await scheduler.start(job)
            return await job.outcome()
    except BaseException:
        scheduler.withdraw(job)  # if it still waits
        raise


async def call_to_end(
    owner: str,
    function: Callable[[*_Ts], _T],
    *args: *_Ts,
    deadline: Seconds | None = DEADLINE,
    at_once: int = PER_OWNER,
) -> _T:
    """Run like ``call``, but delay a cancellation until the function has ended or its deadline has passed.

    So the next operation on the same directory (its removal, for example) never meets a thread that still works there.
    """
    return await _ended(Job(owner, partial(function, *args), deadline=deadline, at_once=at_once))


async def call_stoppable(
    owner: str,
    function: Callable[[Callable[[], bool]], _T],
    *,
    stall: Seconds | None = None,
    at_once: int = PER_OWNER,
) -> _T:
    """Run like ``call_to_end``, for long work: the function gets a callable that tells whether to stop early.

    The function calls it at each step. There is no deadline, but Transient is raised if earlier calls of the owner take
    longer than ``stall`` seconds (None: no limit), or if the function makes no step for that long, or twice that at
    most. It is told to stop then, and has a few seconds to end.
    """
    stop = StopFlag()
    return await _ended(Job(owner, partial(function, stop), deadline=None, at_once=at_once, stall=stall, stop=stop))


def running_calls(longest: Seconds) -> int:
    """Number of calls of this event loop that run, or are about to, and have taken less than ``longest`` seconds.

    Those that were given up at their deadline do not count, nor those that wait for earlier ones of their owner.
    """
    return scheduler_of_loop().running_calls(longest)


def hung() -> tuple[HungCall, ...]:
    """The blocking calls that hang now."""
    return tuple(hung_calls)


def hung_total() -> Mapping[str, int]:
    """Number of calls that have hung since the start, by the kind of their owner (``pod`` of ``pod/<uid>``)."""
    return dict(hung_counts)


@contextmanager
def on_hung(listener: Callable[[HungCall], None]) -> Iterator[None]:
    """Call the listener, in the event loop, for each call that begins to hang while the context is open."""
    listeners.append(listener)
    try:
        yield
    finally:
        listeners.remove(listener)


@asynccontextmanager
async def _limited(job: Job[_T]) -> AsyncIterator[None]:
    """Limit the block to the job's deadline; a TimeoutError of the function itself (ETIMEDOUT) passes through."""
    limit = asyncio.timeout(job.patience)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise job.deadline_error() from error
        raise


async def _ended(job: Job[_T]) -> _T:
    """Run a job until its function has ended or was given up, also when the caller is cancelled."""
    scheduler = scheduler_of_loop()
    try:
        if not scheduler.start_at_once(job):
            async with _limited(job):
                await scheduler.start(job)
        return await job.outcome()
    except asyncio.CancelledError as error:
        if job.answered or scheduler.withdraw(job) or not job.begun:
            raise
        cancelled = error
    while not job.answered:
        job.stop()
        try:
            with suppress(Exception):  # the cancellation is what the caller hears of
                await job.outcome()
        except asyncio.CancelledError as error:
            cancelled = error
    raise cancelled
