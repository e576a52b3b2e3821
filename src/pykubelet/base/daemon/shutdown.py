"""Bounded shutdown of a daemon, even if a task has lost its cancellation or a thread hangs in a dead file system.

A daemon shuts down on a signal, or because one of its parts has failed. From then on it has ``PATIENCE`` seconds;
after that the process exits by force, and the log names the tasks and threads that still ran. No data is lost:
daemons of this project can be killed at any moment.
"""

import asyncio
import fcntl
import logging
import os
import signal
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
"""Time after which every task is cancelled again."""
_SHOWN: Final = 20
_SIGNALS: Final = frozenset({signal.SIGINT, signal.SIGTERM})
"""Those that end a daemon."""
_PIPE_SIZE: Final = 1 << 20
"""Bytes for signals that wait for the thread: a storm of SIGHUP must not take the place of a SIGTERM."""


class Shutdown:
    """Shuts one process down. Create it in the main thread, in the event loop that is to end."""

    def __init__(self, cancel: Callable[[], object], patience: Seconds = PATIENCE) -> None:
        """``cancel`` begins the shutdown of the daemon; it is called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        self._cancel = cancel
        self._patience = patience
        self._begun = threading.Event()

    def on_signals(self, reload: Callable[[], object] | None = None) -> None:
        """Shut down on SIGINT and SIGTERM. A separate thread receives them, since the main thread may be blocked.

        SIGHUP calls ``reload`` in the event loop; None: the signal keeps its disposition.
        """
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        with suppress(OSError):  # the limit of the user's pipes: the usual size holds fewer signals
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # never reset: the process is going to end
        for number in _SIGNALS if reload is None else (*_SIGNALS, signal.SIGHUP):
            signal.signal(number, _nothing)
        threading.Thread(target=self._listen, args=(reader, reload), name="signals", daemon=True).start()

    def begin(self) -> None:
        """Start the deadline of the shutdown. Idempotent; may be called from any thread."""
        if not self._begun.is_set():
            self._begun.set()
            try:
                threading.Thread(target=self._watch, name="ending", daemon=True).start()
            except RuntimeError as error:
                _log.warning("shutdown has no deadline: cannot start a thread", extra={"error": str(error)})

    def ignore_reloads(self) -> None:
        """Let SIGHUP do nothing any more. When the interpreter ends, it restores the default of handled signals, by
        which the process would end with the wrong status."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _listen(self, wakeups: int, reload: Callable[[], object] | None) -> None:
        """Read signal numbers, which Python's C handler writes even while the main thread is blocked."""
        while numbers := os.read(wakeups, _PIPE_SIZE):
            if reload is not None and signal.SIGHUP in numbers:
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(reload)
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
        """Cancel every task again: a cancellation may have been lost."""
        _log.warning("shutdown not finished: cancelling every task again", extra={"tasks": self._tasks()})
        for task in asyncio.all_tasks(self._loop):
            if task is not self._owner:  # the owner waits for the daemon and reports its result
                task.cancel()

    def _tasks(self) -> str:
        with suppress(RuntimeError):  # tasks come and go while another thread looks
            names = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            return ", ".join(names[:_SHOWN])
        return "?"


def ignore_early_reloads() -> None:
    """Let SIGHUP do nothing until `Shutdown.on_signals`: a daemon that starts reads its configuration anyway.

    Programs that the process starts get the signal's default disposition, which an ignored signal would not have.
    """
    signal.signal(signal.SIGHUP, _nothing)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: the thread receives the signal; without a handler the kernel would take the default action."""


def _threads() -> str:
    daemon = {"MainThread", "ending", "signals"}
    return ", ".join(sorted(thread.name for thread in threading.enumerate() if thread.name not in daemon)[:_SHOWN])
