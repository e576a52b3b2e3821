"""Interfaces of the node shutdown: logind, the pod workers and the metrics."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.units import Seconds
from pykubelet.kubelet.observe.node_shutdown.plan.groups import Period
from pykubelet.kubelet.telemetry import Telemetry
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.models.core_v1 import Pod


class Lock(Protocol):
    """A lock that delays the shutdown of the machine."""

    def release(self) -> None:
        """Let the shutdown go on. Idempotent."""


class Logind(Protocol):
    """logind, which announces shutdowns of the machine. All methods raise base errors."""

    async def max_delay(self) -> Seconds:
        """Return the longest time that a lock can delay a shutdown."""

    async def preparing(self) -> bool:
        """Return whether a shutdown has been announced and not been cancelled."""

    async def inhibit(self, who: str, why: str) -> Lock:
        """Take a lock."""

    async def reload(self) -> None:
        """Have logind read its configuration again; returns before it has."""

    async def next_change(self) -> bool:
        """Wait for the next announcement and return whether a shutdown begins; Transient: the connection ended."""


class Workers(Protocol):
    """The pod workers."""

    def running(self) -> Iterable[Pod]:
        """Return the pods whose containers may run."""

    def fail(self, uid: PodUID, reason: str, message: str, grace_seconds: int | None = None) -> None:
        """Stop the pod and fail it with this reason."""

    def released(self, uid: PodUID) -> bool:
        """Whether no container of the pod runs any more, and its volumes are released."""


class ShutdownMetrics(Protocol):
    """Metrics of node shutdowns, as the Go kubelet has them."""

    def shutdown_times(self, start: Seconds, end: Seconds) -> None:
        """Set when the last shutdown began and ended, in Unix time; 0: unknown, or not yet."""


class ShutdownDeps(Struct, frozen=True, kw_only=True):
    """Dependencies of `NodeShutdown`."""

    connect: Callable[[], AbstractAsyncContextManager[Logind]]
    """Connects to logind. Raises base errors."""
    workers: Workers
    changed: Callbacks[[]]
    """Called when a shutdown begins or is cancelled."""
    telemetry: Telemetry[ShutdownMetrics]


class ShutdownConfig(Struct, frozen=True, kw_only=True):
    """Settings of node shutdowns."""

    periods: tuple[Period, ...]
    """From the lowest priority; empty: a shutdown of the machine ends no pods."""
    state_file: Path
    drop_in: Path
    """The file that sets logind's longest delay."""
