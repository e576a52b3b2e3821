"""Keeps the workers of a node from taking much memory at the same time. Runs in the worker.

A worker needs much only for a layer of very many directories, or a hostile one; fifteen such layers would take more
than many nodes have, and the agent would evict pods for them.
"""

import fcntl
import os
from contextlib import suppress
from typing import Final

from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.procfs import own_memory

_ENTRIES: Final = 16
"""Entries of a layer between two looks; each takes a megabyte at most, the size of its extended header."""


class MemoryGate:
    """Lets only one worker at a time take more than ``Limits.memory_alone``; the others wait. Make it before a chroot.

    The kernel gives the lock to the next one when a worker ends in any way, also one of an earlier server.
    """

    def __init__(self, limits: Limits) -> None:
        self._most = limits.memory_alone
        self._lock = os.open(limits.lock, os.O_RDONLY | os.O_CLOEXEC) if limits.lock else -1
        self._memory = own_memory()
        self._entries = 0

    def pass_entry(self) -> None:
        """Wait if this worker takes much memory and another one does, too. Called for each entry of the layer."""
        self._entries += 1
        if self._lock >= 0 and self._entries % _ENTRIES == 0 and self._memory() > self._most:
            with suppress(OSError):  # a file system without locks: the layer matters more than the memory
                fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._lock = -1  # it stays open, and locked, until this process ends
