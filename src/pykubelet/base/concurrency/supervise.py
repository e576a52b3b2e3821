"""Supervision of tasks that must survive their own errors: pod workers, watchers, probes.

Tasks that do the same for different items (a probe for each container) are one loop, as those of ``guard.py``: a
failure is logged once, counted for the loop, and delays that task only. Core loops are not supervised: when one of them
fails, the process has to end. This is one of the few places that catch `Exception`.
"""

import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import count_failure, count_failures_of
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)


class RestartPolicy(Struct, frozen=True):
    """Delays of restarts: from `initial` to `maximum`, from `initial` again after a run of `reset_after` seconds."""

    initial: Seconds = 1.0
    maximum: Seconds = 60.0
    factor: float = 2.0
    reset_after: Seconds = 300.0
    jitter: float = 0.1


DEFAULT_POLICY = RestartPolicy()


async def supervise(
    loop: str,
    name: str,
    factory: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    policy: RestartPolicy = DEFAULT_POLICY,
) -> None:
    """Await `factory()`; if it raises, log the error, wait and call it again. Returns when it returns.

    `loop` is a literal, under which failures are counted; `name` names the task in the log. Cancellation passes
    through. A `Transient` error that names a delay is not retried before that delay.
    """
    count_failures_of(loop)
    backoff = Backoff(
        policy.initial, policy.maximum, factor=policy.factor, reset_after=policy.reset_after, jitter=policy.jitter
    )
    restarts, last = 0, ""
    while True:
        begun = clock.monotonic()
        try:
            await factory()
            return
        except Exception as error:
            count_failure(loop)
            restarts += 1
            delay = backoff.next(name, clock.monotonic())
            if isinstance(error, Transient) and error.retry_after is not None:
                delay = max(delay, error.retry_after)
            news = repr(error) != last or clock.monotonic() - begun > policy.reset_after
            last = repr(error)
            # An expected error needs no stack trace; any other error is a defect, which needs one.
            trace = None if isinstance(error, Transient) or not news else error
            _log.log(
                logging.ERROR if news else logging.DEBUG,
                "task failed: restarting it",
                extra={"loop": loop, "task": name, "error": last, "restarts": restarts, "delay_s": round(delay, 3)},
                exc_info=trace,
            )
        await clock.sleep(delay)
