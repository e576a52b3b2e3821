"""Faults of file systems: full, failing, read-only. Each act injects on entry, heals on exit."""

import contextlib
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

from benchmarks.faults.areas import Area
from benchmarks.faults.node import Node

Which = Callable[[Node], Area]
_NOTICE_SECONDS = 0.5


def disk(node: Node) -> Area:
    return node.disk


def run(node: Node) -> Area:
    return node.run


def log(node: Node) -> Area:
    return node.log


def full(which: Which) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """The file system has no space left (ENOSPC)."""
    return lambda node: which(node).full()


def without_inodes(which: Which) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """The file system has no inodes left (ENOSPC)."""
    return lambda node: which(node).without_inodes()


def read_only(which: Which) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """The file system is read-only (EROFS)."""
    return lambda node: which(node).read_only()


def failing(which: Which) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """Every access to the file system fails (EIO)."""
    return lambda node: which(node).failing()


@contextlib.contextmanager
def reboot(node: Node) -> Iterator[None]:
    """The machine reboots: all processes end at once, memory is lost, and the boot id changes."""
    node.power_off()
    yield
    node.power_on(str(uuid4()))


@contextlib.contextmanager
def aborted_disk(node: Node) -> Iterator[None]:
    """The kernel finds an error and makes the file system read-only; a reboot repairs it."""
    node.disk.abort()
    yield
    time.sleep(_NOTICE_SECONDS)
    with reboot(node):
        pass


@contextlib.contextmanager
def dead_disk(node: Node) -> Iterator[None]:
    """The disk fails with EIO and loses unwritten data; a reboot repairs it."""
    node.disk.shut_down()
    yield
    time.sleep(_NOTICE_SECONDS)
    with reboot(node):
        pass


def clock(seconds: float) -> Callable[[Node], contextlib.AbstractContextManager[None]]:
    """The wall clock jumps by so many seconds, and back on exit."""

    @contextlib.contextmanager
    def act(node: Node) -> Iterator[None]:
        node.set_clock(seconds)
        try:
            yield
        finally:
            node.set_clock(0.0)

    return act
