"""The end of a daemon, whatever holds it: a task that has lost its cancellation, or a thread in a dead file system.

A daemon is asked to end by a signal, or ends since a part of it has failed. From then on it has ``PATIENCE`` seconds;
after that the process ends by force, and the log names what held it. Nothing is lost by that: daemons of this project
can be killed at any moment.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

from pykubelet.base.units import Seconds

_log = logging.getLogger(__name__)

PATIENCE: Final[Seconds] = 15.0
_AGAIN: Final[Seconds] = 5.0
"""After which every task is cancelled again."""
_SHOWN: Final = 20
_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})


class Ending:
    """Ends one process. To be made in the main thread, in the event loop that ends."""

    def __init__(self, cancel: Callable[[], object], patience: Seconds = PATIENCE) -> None:
        """``cancel`` asks the daemon to end; it is called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        self._cancel = cancel
        self._patience = patience
        self._begun = threading.Event()

    def on_signals(self) -> None:
        """End at SIGINT and SIGTERM. A thread of its own hears them, since the main thread may be blocked."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)  # for good: the process is going to end
        for number in _SIGNALS:
            signal.signal(number, _nothing)
        threading.Thread(target=self._listen, args=(ours,), name="signals", daemon=True).start()

    def begin(self) -> None:
        """The daemon is ending: from now on it has so much time. Repeatable; from any thread."""
        if not self._begun.is_set():
            self._begun.set()
            try:
                threading.Thread(target=self._watch, name="ending", daemon=True).start()
            except RuntimeError as error:
                _log.warning("shutdown has no deadline: cannot start a thread", extra={"error": str(error)})

    def _listen(self, wakeups: socket.socket) -> None:
        """Python's own handler in C writes the number of each signal here, whatever the main thread does."""
        while numbers := wakeups.recv(64):
            if _SIGNALS.isdisjoint(numbers):
                continue
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._cancel)
            self.begin()

    def _watch(self) -> None:
        again = min(_AGAIN, self._patience / 3)
        pause = threading.Event()
        pause.wait(again)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel_all)
        pause.wait(self._patience - again)
        _log.error(
            "shutdown not finished: exiting by force",
            extra={"after_s": self._patience, "tasks": self._tasks(), "threads": _threads()},
        )
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(1)

    def _cancel_all(self) -> None:
        """A cancellation may have been lost: every part of the daemon is cancelled again."""
        _log.warning("shutdown not finished: cancelling every task again", extra={"tasks": self._tasks()})
        for task in asyncio.all_tasks(self._loop):
            if task is not self._owner:  # it waits for the daemon and tells what it ended with
                task.cancel()

    def _tasks(self) -> str:
        with suppress(RuntimeError):  # tasks come and go while another thread looks
            names = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            return ", ".join(names[:_SHOWN])
        return "?"


def _nothing(number: int, frame: FrameType | None) -> None:
    """The signal is heard by the thread; without a handler the default action would be taken."""


def _threads() -> str:
    daemon = {"MainThread", "ending", "signals"}
    return ", ".join(sorted(thread.name for thread in threading.enumerate() if thread.name not in daemon)[:_SHOWN])
