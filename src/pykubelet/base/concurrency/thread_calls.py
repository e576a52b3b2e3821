"""One blocking call, and the scheduler that starts it in a thread within the limits per owner and in all.

A call has at least one loop iteration and one switch of threads as its price; timers are only set for calls that take
longer than ``SHORT``, and one timer finds those. If many calls come at a time, a thread runs one after the other.
"""

import asyncio
import contextvars
import logging
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from pykubelet.base.concurrency.answer import Answer
from pykubelet.base.concurrency.thread_pool import Report, ThreadPool, ThreadSlots
from pykubelet.base.errors import Transient
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_PARALLEL: Final = 6
"""Short calls of all owners at a time: more would only hinder each other at the interpreter lock."""
SHORT: Final[Seconds] = 0.05
_RESOLUTION: Final[Seconds] = 0.001
"""Time by which a timer may fire early."""
_GRACE: Final[Seconds] = 5.0
"""Time for a function that was given up, and told to stop, to end."""


class HungCall(Struct, frozen=True):
    """A blocking call that is still running after its deadline."""

    owner: str
    call: str
    """The function's name."""
    deadline: Seconds


hung_calls: Final[list[HungCall]] = []
hung_counts: Final[Counter[str]] = Counter()
listeners: Final[list[Callable[[HungCall], None]]] = []


class StopFlag:
    """The stop flag of a stoppable function, which polls it in its thread; the event loop sees the number of polls."""

    def __init__(self) -> None:
        self.steps = 0
        self._stopped = False

    def __call__(self) -> bool:
        self.steps += 1
        return self._stopped

    def set(self) -> None:
        self._stopped = True


class Job(Generic[_T]):
    """One blocking call. ``run`` runs in a thread; everything else here runs in the event loop."""

    def __init__(
        self,
        owner: str,
        function: Callable[[], _T],
        *,
        deadline: Seconds | None,
        at_once: int,
        stall: Seconds | None = None,
        stop: StopFlag | None = None,
    ) -> None:
        self.owner = owner
        self.at_once = at_once
        self.function = function
        self.began: Seconds = 0.0
        """Time at which its function began, by the event loop's clock; before, 0."""
        self.patience: Final = deadline if stall is None else stall
        """Longest wait for earlier calls of the owner, and then for the function, or for its next step."""
        self._stalls = stall is not None
        self._stop = stop
        self._steps = 0
        self._timer: asyncio.TimerHandle | None = None
        self._hung: HungCall | None = None
        self._asked_to_stop = False
        self._answer: tuple[_T | None, BaseException | None] | None = None
        self._caller: Answer[_T] | None = None
        self._context = contextvars.copy_context()
        self.loop: Final = asyncio.get_running_loop()
        self.of_component = "/" not in owner

    @property
    def answered(self) -> bool:
        """Whether the function has ended or was given up."""
        return self._answer is not None

    @property
    def begun(self) -> bool:
        """Whether a thread runs the function, or has run it."""
        return self.began > 0.0

    def begin(self) -> None:
        """Note that the function begins now. Of a thread, or the event loop."""
        self.began = self.loop.time()

    def run(self) -> tuple[_T | None, BaseException | None]:
        """Run the function, in its thread, and return its result or its error."""
        try:
            return self._context.run(self.function), None
        except BaseException as error:  # any error is raised again in the caller
            return None, error

    def outcome(self) -> Answer[_T]:
        """Return what the caller awaits: the function's result or error, or Transient when it was given up.

        A cancellation ends this wait and not the job; then a new one may be asked for.
        """
        self._caller = Answer()
        self._tell()
        return self._caller

    def stop(self) -> None:
        """Tell the function to stop, if it can be told."""
        if self._stop is not None:
            self._stop.set()

    def watch(self) -> None:
        """Begin to watch that the function ends, or makes its next step, within its patience."""
        if self.patience is not None:
            self._timer = asyncio.get_running_loop().call_at(self.began + self.patience, self._look)

    def settle(self, value: _T | None, error: BaseException | None) -> None:
        """Take the result of the function, which has ended."""
        if self._timer is not None:
            self._timer.cancel()
        if self._hung is not None:
            hung_calls.remove(self._hung)
            _log.info("blocking call has ended after all", extra={"owner": printable(self.owner), "call": self._name()})
        if self._asked_to_stop and error is not None:
            failure, error = error, self.deadline_error()
            error.__cause__ = failure
        self._give(value, error)

    def deadline_error(self) -> Transient:
        """Return the error of a call that was given up."""
        outcome = "has made no progress for" if self._stalls else "has not ended within"
        return Transient(
            f"{self._name()} for {printable(self.owner)} {outcome} {self.patience:g} s; "
            "a file system or device may not be responding"
        )

    def _look(self) -> None:
        """Judge the function, which still runs after its patience."""
        steps = 0 if self._stop is None else self._stop.steps
        if self._asked_to_stop or not self._stalls:
            if not self._asked_to_stop:
                self._mark_hung()
            self._give(None, self.deadline_error())
            return
        if steps != self._steps:
            self._steps, wait = steps, self.patience
        else:
            self._asked_to_stop, wait = True, _GRACE
            self._mark_hung()
            self.stop()
        assert wait is not None
        self._timer = asyncio.get_running_loop().call_later(wait, self._look)

    def _mark_hung(self) -> None:
        """Record and report that the function hangs."""
        assert self.patience is not None
        self._hung = HungCall(self.owner, self._name(), self.patience)
        hung_calls.append(self._hung)
        hung_counts[self.owner.partition("/")[0]] += 1
        _log.warning(
            "blocking call not responding",
            extra={"owner": printable(self.owner), "call": self._name(), "deadline_s": self.patience},
        )
        for listener in tuple(listeners):
            listener(self._hung)

    def _give(self, value: _T | None, error: BaseException | None) -> None:
        """Set the outcome, unless the function was given up before."""
        if self._answer is None:
            self._answer = (value, error)
            self._tell()

    def _tell(self) -> None:
        if self._answer is None or self._caller is None:
            return
        value, error = self._answer
        if isinstance(error, StopIteration):  # it would end the caller's coroutine
            error = RuntimeError(f"{self._name()} raised StopIteration")
        if error is not None:
            self._caller.fail(error)
        else:
            self._caller.give(value)  # type: ignore[arg-type]

    def _name(self) -> str:
        function = self.function.func if isinstance(self.function, partial) else self.function
        name: str = getattr(function, "__qualname__", type(function).__name__)
        return name.rpartition("<locals>.")[2]


class _Slots:
    """Slots, given in the order in which they were asked for. A free one costs a fraction of asyncio's Semaphore."""

    def __init__(self, count: int) -> None:
        self.free = count
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Take a slot as soon as there is one."""
        if self.free:
            self.free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.cancelled():
                self.give()  # it has got the slot, too late
            raise

    def give(self) -> None:
        """Give a slot back; the first that waits takes it."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.free += 1


class _Owner:
    """The running and waiting calls of one owner."""

    def __init__(self, at_once: int) -> None:
        self.slots = _Slots(at_once)
        self.users = 0


class Scheduler:
    """Starts the calls of one event loop within the limits per owner and in all."""

    def __init__(self) -> None:
        self._owners: dict[str, _Owner] = {}
        self._short: ThreadSlots[Job[Any]] = ThreadSlots(_PARALLEL)
        """The short calls. One timer serves all: most have ended before it fires."""
        self._calls: set[Job[Any]] = set()
        """The calls of which the event loop has no outcome yet; without those that wait for their owners."""
        self._timer: asyncio.TimerHandle | None = None

    def running_calls(self, longest: Seconds) -> int:
        """Number of running calls, without those that began ``longest`` seconds ago or earlier, or were given up."""
        since = asyncio.get_running_loop().time() - longest
        return sum(not job.answered and (job.began > since or not job.begun) for job in self._calls)

    def start_at_once(self, job: Job[Any]) -> bool:
        """Run the function in a thread as soon as there is a slot for short calls; False: the owner has no slot now.

        Slots for short calls are soon free, whatever hangs. Raises Transient: no thread.
        """
        owner = self._owners.get(job.owner)
        if owner is not None and not owner.slots.free:
            return False
        self._enter(job).slots.free -= 1
        self._begin(job)
        return True

    async def start(self, job: Job[Any]) -> None:
        """Wait for a slot of the owner, then do as ``start_at_once``."""
        owner = self._enter(job)
        try:
            await owner.slots.wait()
        except BaseException:
            self._leave(job.owner, owner)
            raise
        self._begin(job)

    def withdraw(self, job: Job[Any]) -> bool:
        """Do not run the function; False unless the job waits for a slot for short calls."""
        withdrawn = self._short.withdraw(job)
        if withdrawn:
            self._free(job)
        return withdrawn

    def _begin(self, job: Job[Any]) -> None:
        self._calls.add(job)
        if self._short.take_or_wait(job):
            self._run(job)

    def _enter(self, job: Job[Any]) -> _Owner:
        owner = self._owners.get(job.owner)
        if owner is None:
            owner = self._owners[job.owner] = _Owner(job.at_once)
        owner.users += 1
        return owner

    def _run(self, job: Job[Any]) -> None:
        """Run a job that has its slots in a thread. Raises Transient: no thread; then it has none any more."""
        try:
            _threads.run(partial(self._run_calls, job), of_component=job.of_component)
        except BaseException:
            self._short.give_back(job)
            self._free(job)
            raise
        self._watch_short_calls(job)

    def _run_calls(self, first: Job[Any]) -> Report:
        """Run the function, and those of jobs that wait, in their thread; return the report of the last outcome."""
        report, following = self._run_call(first)
        while following is not None:
            report()
            del report  # it has the outcome
            report, following = self._run_call(following)
        return report

    def _run_call(self, job: Job[Any]) -> tuple[Report, Job[Any] | None]:
        """Run the function; return the report of its outcome, and the job that the thread has to run next."""
        value, error = job.run()
        following = self._short.pass_on(job)
        return partial(_report, job.loop, partial(self._ended, job, value, error, following)), following

    def _ended(self, job: Job[_T], value: _T | None, error: BaseException | None, following: Job[Any] | None) -> None:
        """Take the outcome of a job. ``following`` runs in its thread now."""
        if following is not None:
            self._watch_short_calls(following)
        self._free(job)
        self._start_waiting()
        job.settle(value, error)

    def _start_waiting(self) -> None:
        """Start the jobs for which threads have left slots that they could not use themselves."""
        while (job := self._short.take_next()) is not None:
            try:
                self._run(job)
            except Transient as error:
                job.settle(None, error)

    def _watch_short_calls(self, job: Job[Any]) -> None:
        """Ensure that this job is noticed when it is not short any more."""
        if self._timer is None:
            self._timer = job.loop.call_at(job.began + SHORT, self._look_at_short_calls)

    def _look_at_short_calls(self) -> None:
        """Take the calls that are not short any more out of the limit, and watch them."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for job in self._short.running():
            if job.began + SHORT > loop.time() + _RESOLUTION:
                self._watch_short_calls(job)
                break
            if self._short.give_back(job):
                job.watch()
        self._start_waiting()

    def _free(self, job: Job[Any]) -> None:
        """Forget a job that has ended or does not begin."""
        self._calls.discard(job)
        owner = self._owners[job.owner]
        owner.slots.give()
        self._leave(job.owner, owner)

    def _leave(self, name: str, owner: _Owner) -> None:
        owner.users -= 1
        if owner.users == 0:
            del self._owners[name]


def _report(loop: asyncio.AbstractEventLoop, ended: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: no caller waits any more
        loop.call_soon_threadsafe(ended)


_threads: Final = ThreadPool()
_schedulers: Final["weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Scheduler]"] = weakref.WeakKeyDictionary()


def scheduler_of_loop() -> Scheduler:
    """Return the scheduler of the running event loop."""
    loop = asyncio.get_running_loop()
    scheduler = _schedulers.get(loop)
    if scheduler is None:
        scheduler = _schedulers[loop] = Scheduler()
    return scheduler
