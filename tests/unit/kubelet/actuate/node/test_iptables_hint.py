"""The chain KUBE-IPTABLES-HINT: with programs of the test, and with iptables in a network namespace of its own."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from pykubelet.base.proc import run
from pykubelet.kubelet.actuate.node.iptables_hint import IptablesHint
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import until

PROGRAM = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
  *"-S KUBE-IPTABLES-HINT") test -e {log}.made ;;
  *) : > {log}.made ;;
esac
"""


async def test_missing_program_does_not_delay_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ip6tables is missing."""
    log = tmp_path / "log"
    (tmp_path / "iptables").write_text(PROGRAM.format(log=log))
    (tmp_path / "iptables").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/none")
    clock = VirtualClock()
    hint = IptablesHint(clock)
    task = asyncio.create_task(hint.run())
    look, create = "-w 5 -t mangle -S KUBE-IPTABLES-HINT", "-w 5 -t mangle -N KUBE-IPTABLES-HINT"
    try:
        await until(lambda: log.exists() and log.read_text().splitlines() == [look, create])
        await until(lambda: (tmp_path / "log.made").exists())  # made after the line was written
        (tmp_path / "log.made").unlink()
        await until(lambda: bool(clock.sleepers))
        await clock.advance(60)
        await until(lambda: log.read_text().splitlines() == [look, create, look, create])
    finally:
        task.cancel()
        await asyncio.wait([task])


REAL = """
import asyncio, subprocess
from pykubelet.base.clock import SystemClock
from pykubelet.kubelet.actuate.node.iptables_hint import IptablesHint

async def main():
    hint = IptablesHint(SystemClock())
    for program in PROGRAMS:
        for _ in range(2):
            await hint.ensure(program)
        print(subprocess.run([program, "-w", "-t", "mangle", "-S"], capture_output=True, check=True).stdout.decode())

asyncio.run(main())
"""


@pytest.mark.root
async def test_chain_is_created_with_the_real_programs() -> None:
    programs = [name for name in ("iptables", "ip6tables") if shutil.which(name)]
    if not programs:
        pytest.skip("there is no iptables")
    code = REAL.replace("PROGRAMS", repr(programs))
    done = await run(["unshare", "-n", sys.executable, "-c", code], timeout=60 * PATIENCE, env=dict(os.environ))
    assert done.stdout.decode().count("-N KUBE-IPTABLES-HINT\n") == len(programs)
