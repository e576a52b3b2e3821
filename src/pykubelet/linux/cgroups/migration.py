"""Warm-up of the kernel's lock for cgroup migrations, so that an OCI runtime does not have to wait for it.

A migration takes a system-wide lock (``cgroup_threadgroup_rwsem``). Its first writer after a pause waits for an RCU
grace period, some 10 ms; for about as long after that, other writers do not wait. An OCI runtime makes its first
migration some 15 ms after its start. So the server, when it starts one, takes the lock at the same time by migrating
itself into its present cgroup, and the two waits overlap. A hierarchy mounted with ``favordynmods`` (Linux 6.0) has no
such wait; there the warm-up gains nothing.
"""

import os
from collections.abc import Callable
from pathlib import Path

from pykubelet.base.concurrency.thread_pool import ThreadPool
from pykubelet.base.errors import Transient
from pykubelet.linux.cgroups.detect import Layout
from pykubelet.linux.procparse import parse_cgroups

_SELF = Path("/proc/self/cgroup")


class MigrationWarmUp:
    """Takes the migration lock ahead of expected migrations, at most once at a time."""

    def __init__(self, layout: Layout, own: Path = _SELF) -> None:
        self._layout = layout
        self._own = own
        self._busy = False
        self._threads = ThreadPool()

    def start(self) -> None:
        """Take the lock in a thread, for a migration some 10 ms from now. Returns at once; failures are ignored."""
        if not self._busy:
            self._busy = True
            try:
                self._threads.run(self._stay, of_component=True)
            except Transient:  # no more threads can be started; then the runtime waits for the lock itself
                self._busy = False

    def _stay(self) -> Callable[[], None]:
        try:
            place = self._place()
            if place is not None:
                place.write_text(str(os.getpid()))
        except (OSError, ValueError):
            pass  # the tree may be read-only; then the runtime waits for the lock itself
        return self._end

    def _end(self) -> None:
        self._busy = False

    def _place(self) -> Path | None:
        """The ``cgroup.procs`` of this process's cgroup, in the hierarchy without controllers if there is one.

        Read at each call, since the process may have been migrated. None if the cgroup is outside of the mounted tree.
        """
        for each in reversed(parse_cgroups(self._own.read_bytes())):
            mount = self._layout.controllers.get(each.controllers[0]) if each.controllers else self._layout.unified
            if mount is not None:
                # Outside of the cgroup namespace: the path does not tell the place below the mount.
                return None if each.path.startswith("/..") else mount / each.path.lstrip("/") / "cgroup.procs"
        return None
