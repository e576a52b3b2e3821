"""Guards for loops: one failing item never ends a loop.

A loop over pods, containers, files, events, records or plugins handles each item under the guard of that loop. When
an item raises any ``Exception``, the guard logs it once with the item's name, counts it and backs the item off, and
the loop continues with the other items::

    guard = Guard("housekeeping.leftovers", clock.monotonic)
    for uid in guard.due(leftovers):
        with guard.item(uid):
            await purge(uid)

This is one of the few places that catch ``Exception``. Cancellation passes through, also of a task whose item fails
instead: work that must not be interrupted raises its own error.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final, TypeVar

from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError
from pykubelet.base.text import printable
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

INITIAL: Final[Seconds] = 1.0
MAXIMUM: Final[Seconds] = 300.0
_MOST_FAILING: Final = 4096
"""Failing items remembered per loop; the one that failed longest ago is forgotten first."""

_failures: Final[Counter[str]] = Counter()


def item_failures() -> Mapping[str, int]:
    """Number of failed items of each loop of this process, by the loop's name; 0 for a loop without failures."""
    return dict(_failures)


def count_failures_of(loop: str) -> None:
    """Have the loop among those of ``item_failures``, before any of its items has failed."""
    _failures.setdefault(loop, 0)


def count_failure(loop: str) -> None:
    """Count a failed item of a loop that has no guard: ``supervise.py`` handles its items."""
    _failures[loop] += 1


class _FailingItem(Struct):
    """An item whose last attempt failed."""

    error: str
    times: int


class Guard:
    """The guard of one loop. ``monotonic`` is the clock's; delays grow from ``initial`` to ``maximum`` seconds."""

    def __init__(
        self,
        loop: str,
        monotonic: Callable[[], Seconds],
        *,
        initial: Seconds = INITIAL,
        maximum: Seconds = MAXIMUM,
    ) -> None:
        self.loop: Final = loop
        self._monotonic = monotonic
        self._backoff = Backoff(initial, maximum)
        self._failing: OrderedDict[str, _FailingItem] = OrderedDict()
        count_failures_of(loop)

    def due(self, items: Iterable[_T], name: Callable[[_T], str] = str) -> Iterator[_T]:
        """The items that are not in back-off.

        Pass all items of this round: failures of items that are not among them are forgotten. ``name`` gives the name
        that is passed to ``item`` for an item.
        """
        named = [(name(item), item) for item in items]
        if self._failing:
            present = {key for key, _ in named}
            for key in [key for key in self._failing if key not in present]:
                self._forget(key)
        for key, item in named:
            if self.is_due(key):
                yield item

    def is_due(self, name: str) -> bool:
        """Whether the item may be handled now: it has not failed, or its delay is over."""
        return not self._failing or self.delay(name) <= 0

    def delay(self, name: str) -> Seconds:
        """Seconds until the item may be handled again; 0 if it may be handled now."""
        return self._backoff.remaining(name, self._monotonic()) if name in self._failing else 0.0

    def item(self, name: str) -> "Attempt":
        """The context in which one item is handled: an ``Exception`` ends the block, is recorded and suppressed."""
        return Attempt(self, name)

    @property
    def failing(self) -> Mapping[str, str]:
        """The items that failed last time, each with its error."""
        return {name: entry.error for name, entry in self._failing.items()}

    def failed(self, name: str, error: Exception) -> None:
        """Log and count a failure and back the item off; for loops that catch the errors themselves."""
        count_failure(self.loop)
        message = printable(f"{type(error).__name__}: {error}")
        entry = self._failing.pop(name, None)
        news = entry is None or entry.error != message
        self._failing[name] = _FailingItem(message, entry.times + 1 if entry else 1)
        delay = self._backoff.next(name, self._monotonic())
        while len(self._failing) > _MOST_FAILING:
            self._forget(next(iter(self._failing)))
        # An expected error needs no stack trace; any other error is a defect, which needs one.
        defect = not isinstance(error, PykubeletError | OSError)
        _log.log(
            (logging.ERROR if defect else logging.WARNING) if news else logging.DEBUG,
            "item failed: the loop continues without it and retries it later",
            extra={"loop": self.loop, "item": printable(name), "error": message, "delay_s": round(delay, 3)},
            exc_info=error if defect and news else None,
        )

    def succeeded(self, name: str) -> None:
        """End the item's back-off, and log it if the item had failed."""
        entry = self._failing.get(name)
        if entry is not None:
            self._forget(name)
            extra = {"loop": self.loop, "item": printable(name), "failures": entry.times}
            _log.info("item handled after failures", extra=extra)

    def _forget(self, name: str) -> None:
        self._failing.pop(name, None)
        self._backoff.reset(name)


class Attempt:
    """One attempt to handle an item; ``error`` is the exception it raised, once it has ended."""

    __slots__ = ("_guard", "_name", "error")

    def __init__(self, guard: Guard, name: str) -> None:
        self._guard = guard
        self._name = name
        self.error: Exception | None = None

    def __enter__(self) -> "Attempt":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._guard.succeeded(self._name)
            return False
        if not isinstance(error, Exception):
            return False
        self.error = error
        self._guard.failed(self._name, error)
        if _is_cancelled():
            # The error came instead of the cancellation: the loop would go on, and its canceller wait for ever.
            raise asyncio.CancelledError from error
        return True


def _is_cancelled() -> bool:
    """Whether the current task has been asked to end; False in a thread without an event loop."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
