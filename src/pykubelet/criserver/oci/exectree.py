"""Kills a command that was run in a container, with everything it has started. Blocking.

Its processes are found in /proc: the descendants of the first one, and its session, which OCI runtimes make for each
command. So those whose parent has ended are found too; only what began a session of its own after that goes free.
"""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pykubelet.base.errors import NotFound
from pykubelet.linux.pidfd import PidFd

_PROC = Path("/proc")
_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class Row:
    """One process, of proc_pid_stat(5)."""

    pid: int
    parent: int
    session: int
    ended: bool
    """A zombie, which only its parent can take away."""


def members(rows: Iterable[Row], first: int, own_session: int) -> list[int]:
    """The processes to kill for the command whose first process is, or was, ``first``. Pure."""
    alive = [row for row in rows if not row.ended]
    # A runtime that makes no session would leave the command in ours, or in its container's.
    leads = first != own_session and all(row.session == first for row in alive if row.pid == first)
    found = {row.pid for row in alive if row.pid == first or (leads and row.session == first)}
    children: dict[int, list[int]] = {}
    for row in alive:
        children.setdefault(row.parent, []).append(row.pid)
    queue = [*found, first]
    while queue:
        for child in children.get(queue.pop(), ()):
            if child not in found:
                found.add(child)
                queue.append(child)
    return sorted(found)


def kill_tree(first: int, ours: Callable[[int], bool] = lambda pid: True) -> None:
    """SIGKILL them all; those that are forked meanwhile are found in the next round.

    ``ours`` tells the command's processes from others by their numbers, for a ``first`` that may have ended long ago.
    """
    own = os.getsid(0)
    for _ in range(_ROUNDS):
        left = [pid for pid in members(_rows(), first, own) if ours(pid)]
        if not left:
            return
        for pid in left:
            with suppress(NotFound), PidFd(pid) as process:
                process.send_signal(signal.SIGKILL)


def _rows() -> list[Row]:
    rows = []
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                # The command in parentheses may itself hold any character.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                rows.append(Row(int(entry.name), int(fields[1]), int(fields[3]), fields[0] in "ZX"))
    return rows
