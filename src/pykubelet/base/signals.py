"""Signals as the programs that we start expect them."""

import signal
from types import FrameType

_COMMON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


def ignore_here_only() -> None:
    """Go on ignoring what whoever started us ignores (SIGHUP under nohup, SIGINT in a script's background job), alone.

    A program that is started ignores what was ignored before it, and then a container could not be stopped by that
    signal; one with a handler it gets anew (POSIX, exec). So here is a handler that does nothing. For the main thread.
    """
    for number in _COMMON:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _nothing)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Of this signal nobody wants to know."""
