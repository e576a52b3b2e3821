"""Runs the runtime server so that it dies at a chosen step: ``python -m pykubelet.testing.killpoints criserver …``.

A step is any change that the process is about to make outside itself: a file opened for writing, created, renamed or
removed, a mount or another system call through the C library, a program started, a transaction begun or ended. Python's
audit events report most of them, so the product needs no failpoints, which developers could forget to add.

The file named by ``PYKUBELET_KILL_AT`` holds the number of the step at which the server dies by SIGKILL; steps are
counted while the file exists, and the count is written beside it (``.count``), with what the last step was.
"""

import faulthandler
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

VARIABLE = "PYKUBELET_KILL_AT"
_EVENTS = frozenset(
    (
        *("os.mkdir", "os.rmdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.chmod", "os.chown"),
        *("os.truncate", "os.utime", "os.setxattr", "os.fork", "subprocess.Popen", "shutil.rmtree"),
    )
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_INSIDE = frozenset(("madvise",))
"""System calls without an outside effect; memory is released at any time, which would make the count unstable."""
_T = TypeVar("_T")


class Steps:
    """Counts the steps, and kills the process at the chosen one."""

    def __init__(self, order: Path) -> None:
        self._order = order
        self._count = order.with_suffix(".count")
        self._own = {str(order), str(self._count)}
        self._pid = os.getpid()
        self._busy = threading.local()
        self._lock = threading.Lock()
        self._number = 0
        self._written = 0

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle a Python audit event (an audit hook)."""
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str) and flags & _WRITING and path not in self._own and not path.startswith("/dev/"):
                self.reach(f"open {path}")
        elif event in _EVENTS:
            self.reach(f"{event} {arguments[0]}")

    def reach(self, what: str) -> None:
        """Count a step that is about to happen, except steps of child processes and writes of the counter itself."""
        if getattr(self._busy, "inside", False) or os.getpid() != self._pid:
            return
        self._busy.inside = True
        try:
            with self._lock:
                self._reach(what)
        finally:
            self._busy.inside = False

    def _reach(self, what: str) -> None:
        try:
            written = self._order.stat().st_mtime_ns
            wanted = int(self._order.read_text())
        except (FileNotFoundError, ValueError):
            return
        if written != self._written:
            # The order is new: steps between two orders must not count.
            self._number, self._written = 0, written
        self._number += 1
        self._count.write_text(f"{self._number} {what}")
        if self._number == wanted:
            os.kill(self._pid, signal.SIGKILL)


def _instrument(steps: Steps) -> None:
    from pykubelet.criserver.record_store.database import Database
    from pykubelet.linux import libc

    call = libc.call
    transaction = Database._transaction

    def counted_call(function: str, *args: int | bytes | None) -> int:
        if function not in _INSIDE:
            steps.reach(f"{function} {args[:2]}")
        return call(function, *args)

    def counted_transaction(self: Database, work: Callable[[sqlite3.Connection], _T]) -> _T:
        steps.reach("a transaction begins")
        result = transaction(self, work)
        steps.reach("a transaction was committed")
        return result

    libc.call = counted_call
    setattr(Database, "_transaction", counted_transaction)  # noqa: B010  # mypy: methods are not assigned to


def main() -> None:
    """Run the command line with the hooks in place."""
    # The modules that the hooks patch must be imported before.
    import pykubelet.criserver.main  # noqa: F401
    from pykubelet.cli.app import main as run

    faulthandler.register(signal.SIGUSR1)  # prints the stacks of a server that hangs
    steps = Steps(Path(os.environ[VARIABLE]))
    _instrument(steps)
    sys.addaudithook(steps.hear)
    run()


if __name__ == "__main__":
    main()
