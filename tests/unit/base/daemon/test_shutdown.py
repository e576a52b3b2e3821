"""Signals of a daemon: none that ends it is lost, and SIGHUP never ends it."""

import subprocess
import sys

_STORM = """
import asyncio, os, signal, threading
from pykubelet.base.daemon import shutdown

started = threading.Event()
listen = shutdown.Shutdown._listen

def later(self, *args):
    started.wait()
    listen(self, *args)

shutdown.Shutdown._listen = later

async def main():
    ended, reloads = asyncio.Event(), []
    found = shutdown.Shutdown(ended.set)
    found.on_signals(lambda: reloads.append(1))
    for _ in range(5000):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
    started.set()
    async with asyncio.timeout(10):
        await ended.wait()
    print("ended", bool(reloads), flush=True)
    os._exit(0)

asyncio.run(main())
"""
_LATE = """
import asyncio, os, signal
from pykubelet.base.daemon.run_until_signal import run_until_signal
from pykubelet.base.daemon.notify import Notifier

async def daemon(failed):
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()

asyncio.run(run_until_signal(daemon, Notifier(""), name="test", reload=lambda: None))
print("ended", signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
"""
_EARLY = """
import os, signal, subprocess, sys
from pykubelet.base.daemon.shutdown import ignore_early_reloads
ignore_early_reloads()
os.kill(os.getpid(), signal.SIGHUP)
print("alive", subprocess.run(["sh", "-c", "kill -HUP $$"]).returncode)
"""


def _output(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


def test_sigterm_behind_thousands_of_reload_requests_ends_the_daemon() -> None:
    assert _output(_STORM) == "ended True"


def test_reload_request_before_the_daemon_listens_does_not_end_it_or_reach_its_programs() -> None:
    assert _output(_EARLY) == "alive -1"


def test_reload_requests_are_ignored_while_the_interpreter_ends() -> None:
    assert _output(_LATE) == "ended True"
