"""Supervision of tasks that must survive their own errors: pod workers, watchers, probes.

Core loops are not supervised: when one of them fails, the process has to end. This is one of the few places
that catch `Exception`.
"""

import logging
from collections.abc import Awaitable, Callable

from msgspec import Struct

from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)


class RestartPolicy(Struct, frozen=True):
    """The delays of restarts: from `initial` to `maximum`, from `initial` again after a run of `reset_after` seconds.

    After `max_restarts` restarts the error is raised instead (None: no limit).
    """

    initial: Seconds = 1.0
    maximum: Seconds = 60.0
    factor: float = 2.0
    reset_after: Seconds = 300.0
    jitter: float = 0.1
    max_restarts: int | None = None


DEFAULT_POLICY = RestartPolicy()


async def supervise(
    name: str, factory: Callable[[], Awaitable[None]], *, clock: Clock, policy: RestartPolicy = DEFAULT_POLICY
) -> None:
    """Await `factory()`; if it raises, log the error, wait and call it again. Returns when it returns.

    Cancellation passes through. A `Transient` error that names a delay is not retried before that delay.
    """
    backoff = Backoff(
        policy.initial, policy.maximum, factor=policy.factor, reset_after=policy.reset_after, jitter=policy.jitter
    )
    restarts = 0
    while True:
        try:
            await factory()
            return
        except Exception as error:
            if policy.max_restarts is not None and restarts >= policy.max_restarts:
                raise
            restarts += 1
            delay = backoff.next(name, clock.monotonic())
            if isinstance(error, Transient) and error.retry_after is not None:
                delay = max(delay, error.retry_after)
            # An expected error needs no stack trace; any other error is a defect, which needs one.
            trace = None if isinstance(error, Transient) else error
            _log.error(
                "task failed: restarting it",
                extra={"task": name, "error": repr(error), "restarts": restarts, "delay_s": round(delay, 3)},
                exc_info=trace,
            )
        await clock.sleep(delay)
