"""Kills a command that was run in a container, with everything it has started. Blocking.

Its processes are found in /proc: the descendants of the first one, and its session, which OCI runtimes make for each
command. So those whose parent has ended are found too; only what began a session of its own after that goes free.

No signal goes to a bare number, which may be another process's by then: each process is held by a handle, is the one
that was listed (by its start time), and ``belongs`` says that it is the command's.
"""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from pykubelet.base.errors import NotFound
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs

_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Row:
    """One process, of proc_pid_stat(5)."""

    pid: int
    parent: int
    session: int
    ended: bool
    """A zombie, which only its parent can take away."""
    started: int = 0
    """Ticks since the machine's start."""


def members(rows: Iterable[Row], first: int, own_session: int) -> list[Row]:
    """The processes to kill for the command whose first process is, or was, ``first``. Pure."""
    alive = {row.pid: row for row in rows if not row.ended}
    # A runtime that makes no session would leave the command in ours, or in its container's.
    leads = first != own_session and (first not in alive or alive[first].session == first)
    found = {row.pid for row in alive.values() if row.pid == first or (leads and row.session == first)}
    children: dict[int, list[int]] = {}
    for row in alive.values():
        children.setdefault(row.parent, []).append(row.pid)
    queue = [*found, first]
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return [alive[pid] for pid in sorted(found)]


def kill_tree(first: int, belongs: Callable[[int], bool]) -> None:
    """SIGKILL them all; those that are forked meanwhile are found in the next round.

    ``belongs`` tells the command's processes from others by their numbers: ``first`` may have ended long ago. It is
    asked while a handle on the process is held.
    """
    own = os.getsid(0)
    for _ in range(_ROUNDS):
        if not [row for row in members(_rows(), first, own) if _kill(row, belongs)]:
            return


def _kill(row: Row, belongs: Callable[[int], bool]) -> bool:
    """Whether it was still there, and the command's."""
    process = open_process(ProcessRef(row.pid, row.started))
    if process is None:
        return False
    with process:
        if not belongs(row.pid):
            return False
        with suppress(NotFound):
            process.send_signal(signal.SIGKILL)
    return True


def _rows() -> list[Row]:
    found = (procfs.stat(pid) for pid in procfs.pids())
    return [Row(each.pid, each.parent, each.session, each.ended, each.started) for each in found if each is not None]
