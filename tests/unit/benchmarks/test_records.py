"""The memory of journal and history: at most 1 MiB with 100 pods."""

import subprocess
import sys

from pykubelet.testing.agent import environment

_MOST_KIB = 1024


def test_journal_and_history_of_a_hundred_pods_are_small() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.records"], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("journal and history of 100 pods: ")
    kib = int(last.split()[-2])
    assert 0 < kib <= _MOST_KIB
