"""The one way in which a daemon runs in the foreground: until a signal, or until one of its parts fails."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType

from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.daemon.shutdown import Shutdown
from pykubelet.base.errors import PykubeletError

_IGNORED_BY_PARENTS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""Signals that a parent such as nohup may have set to be ignored; those that end a daemon are in ``shutdown.py``."""


async def run_until_signal(
    daemon: Callable[[Callable[[], None]], Coroutine[object, object, None]],
    notifier: Notifier,
    *,
    name: str,
    reload: Callable[[], object] | None = None,
) -> None:
    """Run a daemon as the task ``name`` until it ends, or until SIGINT or SIGTERM cancels it.

    ``daemon`` gets the function that begins the bounded shutdown when a part of it has failed; ``reload`` is called for
    each SIGHUP, which otherwise keeps its disposition.

    Of errors of several parts that are all of ``base.errors``, the first is raised; a group with a defect in it is
    raised as a whole.
    """

    def stop() -> None:
        notifier.stopping()
        task.cancel()

    shutdown = Shutdown(stop)
    task = asyncio.create_task(daemon(shutdown.begin), name=name)
    shutdown.on_signals(reload)
    try:
        await task
    except asyncio.CancelledError:
        pass
    except BaseExceptionGroup as group:
        known, rest = group.split(PykubeletError)
        if rest is not None or known is None:
            raise
        raise _first(known) from group
    finally:
        shutdown.begin()  # a thread may still keep the process alive
        if reload is not None:
            shutdown.ignore_reloads()


def _first(group: BaseExceptionGroup[PykubeletError]) -> PykubeletError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, PykubeletError)
    return error


def ignore_here_only() -> None:
    """Keep ignoring the signals that the parent set to be ignored, without passing this on to child processes.

    The parent may have set SIGHUP (nohup) or SIGINT (background job of a script) to be ignored. A child inherits an
    ignored signal, and a container could not be stopped by it; a signal with a handler is reset to its default in the
    child (POSIX, exec). So a handler that does nothing replaces SIG_IGN. Call it in the main thread.
    """
    for number in _IGNORED_BY_PARENTS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Ignore the signal."""
