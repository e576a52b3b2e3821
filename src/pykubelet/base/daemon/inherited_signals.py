"""Signal dispositions that child processes inherit."""

import signal
from types import FrameType

_COMMON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def ignore_here_only() -> None:
    """Keep ignoring the signals that the parent set to be ignored, without passing this on to child processes.

    The parent may have set SIGHUP (nohup) or SIGINT (background job of a script) to be ignored. A child inherits an
    ignored signal, and a container could not be stopped by it; a signal with a handler is reset to its default in the
    child (POSIX, exec). So a handler that does nothing replaces SIG_IGN. Call it in the main thread.
    """
    for number in _COMMON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Ignore the signal."""
