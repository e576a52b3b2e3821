"""Waits for short-lived programs (CNI plugins, runtime calls) that a killed server left running.

Each program has the server's mark in its environment. A starting server waits briefly for the programs of earlier
servers before it inspects the machine: they would go on creating what recovery is about to undo. A mark is random and
known to root only, and only processes of the machine itself are checked for it, so no container can pass for such a
program. The wait is bounded.
"""

import logging
import os
import secrets
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import Seconds
from pykubelet.criserver.processes import is_of_machine, open_process, reference
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs

_log = logging.getLogger(__name__)
_VARIABLE = "PYKUBELET_CRISERVER"
_FILE = "marks"
_MOST_FORMER = 16
_LIMIT = 1 << 16
_PATIENCE: Seconds = 2.0
"""Time for programs to end by themselves."""
_DYING: Seconds = 1.5
"""Time for killed programs to end."""
_LOOK: Seconds = 2.5
"""Deadline of one scan of /proc; longer than the patience, so that what it has found by then may be killed."""
_PAUSE: Seconds = 0.02
_SHOWN = 8


class Marks(Struct, frozen=True):
    """The mark of this server, and the marks of earlier servers whose programs may still run."""

    own: str
    former: tuple[str, ...] = ()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of this server's programs."""
        return {_VARIABLE: self.own}


def new_marks(run: Path, scratch: Path) -> Marks:
    """Create the marks of a starting server and write them to the run directory for the next one. Blocking."""
    own = f"{scratch}:{secrets.token_hex(16)}"
    try:
        noted = read_again(partial(read_regular, run / _FILE, _LIMIT)).decode(errors="replace")
        former = tuple(noted.split("\n"))[-_MOST_FORMER:]
    except OSError:
        former = (str(scratch),)  # as in versions before the file of marks
    marks = Marks(own, tuple(mark for mark in former if mark))
    _note(run, (*marks.former, own))
    return marks


async def wait_for_former_programs(run: Path, marks: Marks, clock: Clock) -> None:
    """Wait for programs of earlier servers, and kill those that keep running. Returns after a few seconds at most."""
    wanted = frozenset(f"{_VARIABLE}={mark}".encode() for mark in marks.former)
    begun = clock.monotonic()
    remaining: list[ProcessRef] = []
    killed = False
    try:
        while await _search(wanted, remaining):
            waited = clock.monotonic() - begun
            # A slow scan must not use up the time in which they would have been killed.
            if killed and waited > _PATIENCE + _DYING:
                break
            if waited > _PATIENCE:
                _kill(remaining)
                killed = True
            await clock.sleep(_PAUSE)
    except PykubeletError as error:
        found = tuple(remaining)  # a scan that was given up goes on
        if clock.monotonic() - begun > _PATIENCE:
            _kill(found)
        extra = {"error": str(error), "found": len(found)}
        _log.warning("cannot search for programs of the previous server", extra=extra)
        return
    if remaining:
        pids = [each.pid for each in remaining[:_SHOWN]]
        _log.error("programs of the previous server still running; continuing to start", extra={"pids": pids})
    await blocking.call("start-up", _note, run, (marks.own,))


async def _search(wanted: frozenset[bytes], found: list[ProcessRef]) -> bool:
    """Replace ``found`` by the marked processes; whether there are any. It has some also if the search is given up."""
    found.clear()
    await blocking.call("start-up", _find, wanted, found, deadline=_LOOK)
    return bool(found)


def _note(run: Path, marks: Collection[str]) -> None:
    try:
        write_atomic(run / _FILE, "\n".join(marks).encode())
    except OSError as error:
        _log.warning(
            "cannot write marks: the next server will not find programs of this one", extra={"error": str(error)}
        )


def _find(wanted: frozenset[bytes], found: list[ProcessRef]) -> None:
    """Add each marked process to ``found`` as soon as it is found."""
    for pid in procfs.pids():
        # Checked first: the environment is read from the memory of the process, and a hostile one could block that.
        if pid != os.getpid() and is_of_machine(pid):
            ref = reference(pid)
            if ref is not None and not wanted.isdisjoint(procfs.environment(pid) or ()):
                found.append(ref)


def _kill(programs: Collection[ProcessRef]) -> None:
    for ref in programs:
        process = open_process(ref)
        if process is not None:
            with process, suppress(NotFound):
                process.send_signal(signal.SIGKILL)
