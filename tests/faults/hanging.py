"""Run a daemon in a separate process in which one stage of the start hangs in a chosen way."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pykubelet.testing.agent import environment

SCRIPT = """
import asyncio, importlib, sys, time
from pykubelet.base.daemon import shutdown
from pykubelet.cli.app import main

stage, way = sys.argv[1:3]
shutdown.Shutdown.__init__.__defaults__ = (1.5,)

async def hangs(*args, **named):
    print("reached", flush=True)
    while True:
        if way == "blocks":
            time.sleep(100)
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            if way == "waits":
                raise

def reads(*args, **named):
    print("reached", flush=True)
    time.sleep(100)

class Hangs:
    def __init__(self, *args, **named): pass
    async def __aenter__(self): await hangs()
    async def __aexit__(self, *args): pass

module, _, path = stage.partition(":")
owner = importlib.import_module(module)
*outer, name = path.split(".")
for each in outer:
    owner = getattr(owner, each)
getattr(owner, name)  # a stage that was renamed is an error, not a start without a hanging stage
setattr(owner, name, Hangs if name == "supervised" else reads if way == "reads" else hangs)
del sys.argv[1:3]
main()
"""
"""``python -c SCRIPT STAGE WAY …`` runs the command line ``…`` until it comes to STAGE, ``module:name`` of a function
or context manager. A coroutine function waits, refuses to be cancelled, or blocks the event loop, as WAY says; with
``reads``, STAGE is a plain function, which blocks like a read from a disk that is not responding."""


@contextmanager
def started(arguments: list[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_reached(process: "subprocess.Popen[str]") -> None:
    """Wait until the process has reached the stage."""
    assert process.stdout is not None
    while "reached" not in (line := process.stdout.readline()):
        assert line, "it ended before it came to that stage"
