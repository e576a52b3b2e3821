"""Signals that this process ignores are not ignored by the programs that it starts."""

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, subprocess, sys
from pykubelet.base.daemon.run_until_signal import ignore_here_only
if sys.argv[1] == "heard":
    ignore_here_only()
number = getattr(signal, sys.argv[2])
os.kill(os.getpid(), number)
sys.exit(subprocess.run(["sh", "-c", f"kill -{int(number)} $$; exit 7"]).returncode % 256)
"""


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"])
@pytest.mark.parametrize(("how", "ended_by_signal"), [("heard", True), ("as it is", False)])
def test_ignored_here_only(name: str, how: str, ended_by_signal: bool) -> None:
    number = getattr(signal, name)
    script = f"trap '' {name.removeprefix('SIG')}; exec \"$@\""
    command = ["sh", "-c", script, "sh", sys.executable, "-c", PROGRAM, how, name]
    # It outlives its own signal in either case; what it starts does so only in the second.
    assert subprocess.run(command, check=False).returncode == (256 - number if ended_by_signal else 7)


def test_signal_that_is_not_ignored_keeps_its_default_action() -> None:
    program = (
        "import signal; from pykubelet.base.daemon.run_until_signal import ignore_here_only;"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL);"
        "ignore_here_only(); assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
