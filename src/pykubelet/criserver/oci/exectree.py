"""Kills an exec command in a container with all its descendants. Blocking.

Its processes are found in /proc: the descendants of the first one, and its session, which OCI runtimes create for each
command. So processes whose parent has ended are found too, unless they have created their own session.

Signals are never sent to a bare PID, which may have been reused: each process is opened as a pidfd, has the listed
start time, and ``belongs`` confirms that it is part of the command.
"""

import os
import signal
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress

from msgspec import Struct

from pykubelet.base.errors import NotFound
from pykubelet.criserver.processes import open_process
from pykubelet.criserver.types import ProcessRef
from pykubelet.linux import procfs

_ROUNDS = 16


class Row(Struct, frozen=True):
    """One process, as in proc_pid_stat(5)."""

    pid: int
    parent: int
    session: int
    ended: bool
    """A zombie, which only its parent can reap."""
    started: int = 0
    """Clock ticks since boot."""


def members(rows: Iterable[Row], firsts: Collection[int], own_session: int) -> list[Row]:
    """Select the processes of the commands whose first processes are, or were, ``firsts``. Pure."""
    alive = {row.pid: row for row in rows if not row.ended}
    # If the runtime creates no session, the command is in this process's session or in its container's.
    leaders = {
        first for first in firsts if first != own_session and (first not in alive or alive[first].session == first)
    }
    found = {row.pid for row in alive.values() if row.pid in firsts or row.session in leaders}
    children: dict[int, list[int]] = {}
    for row in alive.values():
        children.setdefault(row.parent, []).append(row.pid)
    queue = [*found, *firsts]
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return [alive[pid] for pid in sorted(found)]


def kill_tree(first: int, belongs: Callable[[int], bool]) -> None:
    """Kill all processes of the command; those that are forked meanwhile are found in the next round.

    ``belongs`` tells whether a PID is part of the command, since ``first`` may have ended long ago. It is called
    while a handle of the process is open.
    """
    kill_trees({first}, belongs)


def kill_trees(
    firsts: Collection[int], belongs: Callable[[int], bool], is_late: Callable[[], bool] = lambda: False
) -> bool:
    """Kill all processes of several commands, as ``kill_tree`` does; /proc is read once for all of them.

    ``is_late`` is asked before each process, and ends the work. Returns whether none was left.
    """
    own = os.getsid(0)
    return not firsts or _kill_in_rounds(lambda: members(_rows(), firsts, own), belongs, is_late)


def kill_all(belongs: Callable[[int], bool]) -> None:
    """Kill all processes of this machine that belong to something, as ``kill_tree`` does."""
    _kill_in_rounds(lambda: [row for row in _rows() if not row.ended], belongs)


def _kill_in_rounds(
    listed: Callable[[], Iterable[Row]], belongs: Callable[[int], bool], is_late: Callable[[], bool] = lambda: False
) -> bool:
    """Kill what is listed until a list has no other process; one that was killed forks no more, though it may take its
    time to die. Returns whether there was such a list."""
    killed: set[tuple[int, int]] = set()
    for _ in range(_ROUNDS):
        before = len(killed)
        for row in listed():
            if is_late():
                return False
            if (row.pid, row.started) not in killed and _kill(row, belongs):
                killed.add((row.pid, row.started))
        if len(killed) == before:
            return True
    return False


def _kill(row: Row, belongs: Callable[[int], bool]) -> bool:
    """Kill one process; whether it still existed and was part of the command."""
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
