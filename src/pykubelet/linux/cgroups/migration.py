"""Takes from those who are about to move a process into another cgroup the wait that comes with it.

A move takes a lock of the whole system (``cgroup_threadgroup_rwsem``). Its first writer after a pause waits for an RCU
grace period, some 10 ms; for about as long after that nobody else has to. An OCI runtime makes its first move some
15 ms after it was started. So who starts one takes the lock meanwhile, by a move to where he is already, and the two
waits become one. A hierarchy mounted with ``favordynmods`` (Linux 6.0) has no such wait; there this gains nothing.
"""

import os
import threading
from pathlib import Path

from pykubelet.linux.cgroups.detect import Layout
from pykubelet.linux.procparse import parse_cgroups

_SELF = Path("/proc/self/cgroup")


class MigrationWarmUp:
    """Told of moves that will come."""

    def __init__(self, layout: Layout, own: Path = _SELF) -> None:
        self._layout = layout
        self._own = own
        self._busy = False

    def start(self) -> None:
        """Somebody will move a process some 10 ms from now. Returns at once; it is not asked whether it helped."""
        if not self._busy:
            self._busy = True
            try:
                threading.Thread(target=self._stay, name="cgroup-migration", daemon=True).start()
            except RuntimeError:  # no more threads can be had; then the other waits for itself
                self._busy = False

    def _stay(self) -> None:
        try:
            place = self._place()
            if place is not None:
                place.write_text(str(os.getpid()))
        except OSError:
            pass  # a read-only tree, for one; then the other waits for itself
        finally:
            self._busy = False

    def _place(self) -> Path | None:
        """The ``cgroup.procs`` of the cgroup we are in, in the hierarchy that has no controllers if there is one.

        Read each time, since somebody may have moved us. None also when that cgroup is above what the mount shows.
        """
        for each in reversed(parse_cgroups(self._own.read_bytes())):
            mount = self._layout.controllers.get(each.controllers[0]) if each.controllers else self._layout.unified
            if mount is not None:
                # Outside our cgroup namespace: the path says nothing of where the mount has it.
                return None if each.path.startswith("/..") else mount / each.path.lstrip("/") / "cgroup.procs"
        return None
