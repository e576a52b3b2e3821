"""Blocking calls in threads: a call that hangs delays only its owner.

A thread in a system call on a dead file server or device cannot be stopped. Therefore calls never queue behind those
of other owners: each owner (a pod, a container, a component) may run a few calls at a time, and waits only for its
own. ``thread_pool.py`` has the threads.

All owners together may run ``_PARALLEL`` short calls at a time, which keeps the number of threads small on a healthy
node; a call that takes longer than ``_SHORT`` no longer counts. A call that is still running at its deadline hangs:
it is logged, counted and reported to the listeners of ``on_hung``, and its caller gets Transient.
"""

import asyncio
import contextvars
import logging
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, TypeVar, TypeVarTuple

from pykubelet.base.concurrency.thread_pool import ThreadPool
from pykubelet.base.errors import Transient
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_log = logging.getLogger(__name__)

DEADLINE: Final[Seconds] = 120.0
PER_OWNER: Final = 4
"""Calls of one owner at a time."""
_PARALLEL: Final = 8
"""Short calls of all owners at a time."""
_SHORT: Final[Seconds] = 0.05
_GRACE: Final[Seconds] = 5.0
"""How long a function that was given up, and told to stop, may take to end."""


@dataclass(frozen=True, slots=True)
class Hung:
    """A blocking call that is still running after its deadline."""

    owner: str
    call: str
    """The function's name."""
    deadline: Seconds


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
    job = _Job(owner, partial(function, *args), deadline=deadline, at_once=at_once)
    async with _limited(job):
        await _scheduler().start(job)
        return await asyncio.shield(job.result)


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
    return await _ended(_Job(owner, partial(function, *args), deadline=deadline, at_once=at_once), _go_on)


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
    most. It is told to stop then, and has ``_GRACE`` seconds to end.
    """
    stop = _Stop()
    job = _Job(owner, partial(function, stop), deadline=None, at_once=at_once, stall=stall)
    return await _ended(job, stop.set, lambda: stop.steps)


def short_calls() -> int:
    """Number of running calls of this event loop that have taken less than ``_SHORT`` so far."""
    return _scheduler().short_calls


def hung() -> tuple[Hung, ...]:
    """The blocking calls that hang now."""
    return tuple(_hung)


def hung_total() -> Mapping[str, int]:
    """Number of calls that have hung since the start, by the kind of their owner (``pod`` of ``pod/<uid>``)."""
    return dict(_hung_total)


@contextmanager
def on_hung(listener: Callable[[Hung], None]) -> Iterator[None]:
    """Call the listener, in the event loop, for each call that begins to hang while the context is open."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


_hung: Final[list[Hung]] = []
_hung_total: Final[Counter[str]] = Counter()
_listeners: Final[list[Callable[[Hung], None]]] = []


class _Stop:
    """What a stoppable function asks in its thread whether to stop; the event loop sees how often it has asked."""

    def __init__(self) -> None:
        self.steps = 0
        self._stopped = False

    def __call__(self) -> bool:
        self.steps += 1
        return self._stopped

    def set(self) -> None:
        self._stopped = True


class _Job(Generic[_T]):
    """One blocking call. ``result`` is set when the function has returned, if the event loop still runs."""

    def __init__(
        self,
        owner: str,
        function: Callable[[], _T],
        *,
        deadline: Seconds | None,
        at_once: int,
        stall: Seconds | None = None,
    ) -> None:
        self.owner = owner
        self.at_once = at_once
        self.function = function
        self.deadline = deadline
        self.stall = stall
        self.result: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self.hung: Hung | None = None

    @property
    def name(self) -> str:
        function = self.function.func if isinstance(self.function, partial) else self.function
        name: str = getattr(function, "__qualname__", type(function).__name__)
        return name.rpartition("<locals>.")[2]

    @property
    def patience(self) -> Seconds | None:
        """How long to wait for earlier calls of the owner."""
        return self.deadline if self.stall is None else self.stall

    def deadline_error(self) -> Transient:
        outcome = "has not ended within" if self.stall is None else "has made no progress for"
        return Transient(
            f"{self.name} for {printable(self.owner)} {outcome} {self.patience:g} s; "
            "a file system or device may not be responding"
        )

    def mark_hung(self) -> None:
        """Record and report that the function still runs after its deadline."""
        assert self.patience is not None
        self.hung = Hung(self.owner, self.name, self.patience)
        _hung.append(self.hung)
        _hung_total[self.owner.partition("/")[0]] += 1
        _log.warning(
            "blocking call not responding",
            extra={"owner": printable(self.owner), "call": self.name, "deadline_s": self.patience},
        )
        for listener in tuple(_listeners):
            listener(self.hung)

    def settle(self, value: _T | None, error: BaseException | None) -> None:
        """Set the result of the function that has ended. Runs in the event loop."""
        if self.hung is not None:
            _hung.remove(self.hung)
            _log.info("blocking call has ended after all", extra={"owner": printable(self.owner), "call": self.name})
        if self.result.done():
            return
        if error is not None:
            self.result.set_exception(error)
            self.result.exception()  # marks it as retrieved: the caller may have been cancelled
        else:
            self.result.set_result(value)  # type: ignore[arg-type]


@asynccontextmanager
async def _limited(job: _Job[_T]) -> AsyncIterator[None]:
    """Limit the block to the job's deadline; a TimeoutError of the function itself (ETIMEDOUT) passes through."""
    limit = asyncio.timeout(job.patience)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise job.deadline_error() from error
        raise


def _go_on() -> None:
    """Nothing can stop the function."""


async def _ended(job: _Job[_T], stop: Callable[[], None], steps: Callable[[], int] = lambda: 0) -> _T:
    """Run a job to its end, or until its deadline has passed or it stalls, also when the caller is cancelled.

    ``stop`` tells its function to stop, ``steps`` how many steps it has made.
    """
    async with _limited(job):
        await _scheduler().start(job)
    loop = asyncio.get_running_loop()
    cancelled: asyncio.CancelledError | None = None
    given_up = False
    seen, until = steps(), None if job.patience is None else loop.time() + job.patience
    while not job.result.done():
        try:
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                assert job.patience is not None
                if given_up or job.stall is None:
                    break
                if steps() != seen:
                    seen, until = steps(), loop.time() + job.patience
                else:
                    given_up, until = True, loop.time() + _GRACE
                    job.mark_hung()
                    stop()
                continue
            await asyncio.wait([job.result], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
            stop()
    if cancelled is not None:
        raise cancelled
    if not job.result.done():
        raise job.deadline_error()
    if given_up and (failure := job.result.exception()) is not None:
        raise job.deadline_error() from failure
    return job.result.result()


class _Owner:
    """The running and waiting calls of one owner."""

    def __init__(self, at_once: int) -> None:
        self.slots = asyncio.Semaphore(at_once)
        self.users = 0


class _Scheduler:
    """Starts the calls of one event loop within the limits per owner and in all."""

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._short_slots = asyncio.Semaphore(_PARALLEL)
        self.short_calls = 0

    async def start(self, job: _Job[_T]) -> None:
        """Wait for a slot of the owner and a slot for short calls, then run the function in a thread."""
        owner = self._owners.get(job.owner)
        if owner is None:
            owner = self._owners[job.owner] = _Owner(job.at_once)
        owner.users += 1
        try:
            await owner.slots.acquire()
            try:
                await self._short_slots.acquire()
                try:
                    self._run(job, owner)
                except BaseException:
                    self._short_slots.release()
                    raise
            except BaseException:
                owner.slots.release()
                raise
        except BaseException:
            self._leave(job.owner, owner)
            raise

    def _run(self, job: _Job[_T], owner: _Owner) -> None:
        loop = asyncio.get_running_loop()
        short = True
        self.short_calls += 1

        def end_short() -> None:
            nonlocal short
            if short:
                short = False
                self.short_calls -= 1
                self._short_slots.release()

        timers = [loop.call_later(_SHORT, end_short)]
        if job.deadline is not None:
            timers.append(loop.call_later(job.deadline, job.mark_hung))

        def ended(value: _T | None, error: BaseException | None) -> None:
            for timer in timers:
                timer.cancel()
            end_short()
            owner.slots.release()
            self._leave(job.owner, owner)
            job.settle(value, error)

        def work() -> None:
            outcome: tuple[_T | None, BaseException | None]
            try:
                outcome = (job.function(), None)
            except BaseException as error:  # any error is raised again in the caller
                outcome = (None, error)
            with suppress(RuntimeError):  # the loop is closed: no caller waits any more
                loop.call_soon_threadsafe(ended, *outcome)

        try:
            _threads.run(partial(contextvars.copy_context().run, work), of_component="/" not in job.owner)
        except BaseException:
            for timer in timers:
                timer.cancel()
            self.short_calls -= 1
            raise

    def _leave(self, name: str, owner: _Owner) -> None:
        owner.users -= 1
        if owner.users == 0:
            del self._owners[name]


_threads: Final = ThreadPool()
_schedulers: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Scheduler]"] = weakref.WeakKeyDictionary()


def _scheduler() -> _Scheduler:
    loop = asyncio.get_running_loop()
    scheduler = _schedulers.get(loop)
    if scheduler is None:
        scheduler = _schedulers[loop] = _Scheduler()
    return scheduler
