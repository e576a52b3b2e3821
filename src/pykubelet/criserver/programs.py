"""The short programs of the server (plugins, runtime calls), which a killed server leaves running.

Each has the server's mark in its environment. The next server waits a little for those of the last one before it
looks at what there is: they would go on making what recovery is about to undo. A mark is random and known to root
only, and only processes of the machine itself are asked for it, so that no container can pass for such a program. The
wait has an end whatever they do.
"""

import logging
import os
import secrets
import signal
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base import blocking
from pykubelet.base.atomic import write_atomic
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.safe_path import read_regular
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
"""For programs to end by themselves."""
_DYING: Seconds = 1.5
"""For programs that were killed."""
_LOOK: Seconds = 2.0
"""For one look through /proc."""
_PAUSE: Seconds = 0.02
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Marks:
    """The mark of this server, and those of the ones before it whose programs may still run."""

    own: str
    former: tuple[str, ...] = ()

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs of this server get."""
        return {_VARIABLE: self.own}


def new_marks(run: Path, scratch: Path) -> Marks:
    """Those of a server that starts, noted for the next one in the run directory. Blocking."""
    own = f"{scratch}:{secrets.token_hex(16)}"
    try:
        former = tuple(read_regular(run / _FILE, _LIMIT).decode(errors="replace").split("\n"))[-_MOST_FORMER:]
    except OSError:
        former = (str(scratch),)  # as servers before these notes had it
    marks = Marks(own, tuple(mark for mark in former if mark))
    _note(run, (*marks.former, own))
    return marks


async def wait_for_former_programs(run: Path, marks: Marks, clock: Clock) -> None:
    """Wait for programs of earlier servers, and kill those that go on. Returns after a few seconds at most."""
    wanted = frozenset(f"{_VARIABLE}={mark}".encode() for mark in marks.former)
    begun = clock.monotonic()
    left: tuple[ProcessRef, ...] = ()
    try:
        while left := await blocking.call("start-up", _marked, wanted, deadline=_LOOK):
            waited = clock.monotonic() - begun
            if waited > _PATIENCE + _DYING:
                break
            if waited > _PATIENCE:
                _kill(left)
            await clock.sleep(_PAUSE)
    except PykubeletError as error:
        _log.warning("programs of the last server cannot be looked for", extra={"error": str(error)})
        return
    if left:
        pids = [each.pid for each in left[:_SHOWN]]
        _log.error("programs of the last server still run: starting without waiting for them", extra={"pids": pids})
    await blocking.call("start-up", _note, run, (marks.own,))


def _note(run: Path, marks: Collection[str]) -> None:
    try:
        write_atomic(run / _FILE, "\n".join(marks).encode())
    except OSError as error:
        _log.warning("the next server will not know programs of this one", extra={"error": str(error)})


def _marked(wanted: frozenset[bytes]) -> tuple[ProcessRef, ...]:
    found = []
    for pid in procfs.pids():
        # Only then its own memory is read, which a process of another user could delay for ever.
        if pid != os.getpid() and is_of_machine(pid):
            ref = reference(pid)
            if ref is not None and not wanted.isdisjoint(procfs.environment(pid) or ()):
                found.append(ref)
    return tuple(found)


def _kill(left: Collection[ProcessRef]) -> None:
    for ref in left:
        process = open_process(ref)
        if process is not None:
            with process, suppress(NotFound):
                process.send_signal(signal.SIGKILL)
