"""The watchdog notifies systemd while the daemon works, and stops when it does not."""

import asyncio
import faulthandler
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from pykubelet.base.concurrency.guard import item_failures
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.daemon.watchdog import Watchdog
from pykubelet.testing.clock import VirtualClock


class RecordingNotifier(Notifier):
    """Records what systemd is told, and whether that works."""

    def __init__(self, watchdog: float) -> None:
        super().__init__("", watchdog)
        self.reported: list[str] = []
        self.failures = 0

    def _tell(self, state: str) -> bool:
        self.reported.append(state)
        self.failures -= 1
        return self.failures < 0


@asynccontextmanager
async def running(notifier: Notifier, fault: Callable[[], str | None], clock: VirtualClock) -> AsyncIterator[None]:
    task = asyncio.create_task(Watchdog(notifier, fault, clock=clock).run())
    await clock.settle()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def _keep_faulthandler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: True)


async def test_systemd_is_notified_four_times_within_the_timeout() -> None:
    notifier, clock = RecordingNotifier(10), VirtualClock()
    async with running(notifier, lambda: None, clock):
        assert notifier.reported == ["WATCHDOG=1"]
        await clock.advance(2.4)
        assert len(notifier.reported) == 1
        await clock.advance(7.7)
        assert notifier.reported == ["WATCHDOG=1"] * 5


async def test_daemon_that_is_unhealthy_for_a_moment_survives() -> None:
    notifier, clock, faults = RecordingNotifier(10), VirtualClock(), [None, "a moment"]
    async with running(notifier, lambda: faults.pop(0) if faults else None, clock):
        await clock.advance(9.9)
        assert notifier.reported.count("WATCHDOG=1") == 3, "systemd is told well before its timeout"


async def test_unhealthy_daemon_is_silent_until_it_works_again() -> None:
    notifier, clock, faults = RecordingNotifier(10), VirtualClock(), ["the sync loop is stuck\n"]
    async with running(notifier, lambda: faults[0] if faults else None, clock):
        await clock.advance(15)
        assert "WATCHDOG=1" not in notifier.reported
        assert notifier.reported[0] == "STATUS=Not healthy: the sync loop is stuck\\n"
        faults.clear()
        notifier.reported.clear()
        await clock.advance(2.5)
        assert notifier.reported == ["STATUS=Serving", "WATCHDOG=1"]


async def test_check_that_raises_is_followed_by_others() -> None:
    notifier, clock, before = RecordingNotifier(10), VirtualClock(), item_failures().get("watchdog", 0)

    def fail() -> str | None:
        if item_failures()["watchdog"] == before:
            raise ValueError("no error that anyone foresaw")
        return None

    async with running(notifier, fail, clock):
        assert notifier.reported == []
        await clock.advance(2.5)
        assert notifier.reported == ["WATCHDOG=1"]


async def test_failed_notification_is_repeated_once() -> None:
    notifier, clock = RecordingNotifier(10), VirtualClock()
    notifier.failures = 3
    async with running(notifier, lambda: None, clock):
        await clock.advance(1)
        assert len(notifier.reported) == 2
        await clock.advance(2.5)
        assert len(notifier.reported) == 3
        await clock.advance(1)
        assert len(notifier.reported) == 4


async def test_watchdog_that_is_off_ends_at_once() -> None:
    notifier, clock = RecordingNotifier(0), VirtualClock()
    await Watchdog(notifier, lambda: "broken", clock=clock).run()
    assert notifier.reported == []
