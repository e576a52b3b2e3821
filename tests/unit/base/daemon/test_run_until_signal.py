"""Running a daemon in the foreground."""

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from pykubelet.base.daemon import run_until_signal as module
from pykubelet.base.daemon.notify import Notifier
from pykubelet.base.errors import Invalid, Transient


class FakeShutdown:
    """Cancels on SIGTERM like the real one, without its thread that ends the process."""

    def __init__(self, cancel: Callable[[], object]) -> None:
        self.cancel = cancel

    def begin(self) -> None:
        pass

    def ignore_reloads(self) -> None:
        pass

    def on_signals(self, reload: Callable[[], object] | None) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.cancel)
        if reload is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


@pytest.fixture(autouse=True)
def shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Shutdown", FakeShutdown)


async def run(daemon: Callable[[Callable[[], None]], object]) -> None:
    await module.run_until_signal(daemon, Notifier(""), name="test")  # type: ignore[arg-type]


async def test_hangup_calls_reload_and_the_daemon_goes_on() -> None:
    reloaded = asyncio.Event()

    async def daemon(failed: Callable[[], None]) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        await reloaded.wait()

    await module.run_until_signal(daemon, Notifier(""), name="test", reload=reloaded.set)


async def test_daemon_that_gets_a_signal_is_cancelled() -> None:
    ended = []

    async def daemon(failed: Callable[[], None]) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    await run(daemon)
    assert ended == [True]


async def test_errors_of_several_parts_raise_the_first() -> None:
    async def daemon(failed: Callable[[], None]) -> None:
        raise ExceptionGroup("parts", [ExceptionGroup("inner", [Invalid("first")]), Transient("second")])

    with pytest.raises(Invalid, match="first"):
        await run(daemon)


async def test_group_with_a_defect_is_raised_as_a_whole() -> None:
    async def daemon(failed: Callable[[], None]) -> None:
        raise ExceptionGroup("parts", [Invalid("first"), ZeroDivisionError("defect")])

    with pytest.raises(ExceptionGroup, match="parts"):
        await run(daemon)
