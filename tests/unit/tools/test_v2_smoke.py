"""The verdict of the short form in CI: red only if tests fail in a machine that has booted."""

import os
import select
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.testing.agent import wait_for
from tools.v2 import smoke
from tools.v2.smoke import BOOTED, NO_MACHINE, UNAVAILABLE, Run, judge, main

NEVER = Run(status=None, passed=360.0, boot=18.0, since_boot=200.0, busy=0.2, unavailable="")
"""The tests have not ended, and the machine had nothing to do."""


@pytest.mark.parametrize(
    ("run", "verdict", "reason"),
    [
        (replace(NEVER, status=0, passed=120.0), "passed", "120 s"),
        (replace(NEVER, status=1), "failed", "status 1"),
        (replace(NEVER, status=2, boot=0.0), "failed", "status 2"),
        (
            replace(NEVER, status=NO_MACHINE, boot=0.0, unavailable="the machine did not boot"),
            "skipped",
            "did not boot",
        ),
        (replace(NEVER, status=NO_MACHINE), "skipped", "not available"),
        (replace(NEVER, status=1, unavailable="qemu has ended"), "skipped", "qemu has ended"),
        (replace(NEVER, boot=0.0), "skipped", "had not booted after 360 s"),
        (replace(NEVER, busy=0.9), "skipped", "not finished after 360 s, and the machine was busy"),
        (replace(NEVER, boot=60.0), "skipped", "not finished after 360 s"),
        (NEVER, "failed", "something hangs"),
    ],
)
def test_verdict_depends_on_the_boot_and_the_status(run: Run, verdict: str, reason: str) -> None:
    found = judge(run)
    assert found[0] == verdict and reason in found[1], found


def command(cache: Path, script: str) -> list[str]:
    """A command in place of the tests, which runs a shell script beside the image."""
    return ["sh", "-c", f"cd {cache} && {script}"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(smoke, "_lacking", lambda: "")
    return tmp_path


@pytest.mark.parametrize(
    ("script", "status", "said"),
    [
        (f"echo 9.0 1 > {BOOTED}", 0, "passed"),
        (f"echo 9.0 1 > {BOOTED}; echo test_pods FAILED; exit 1", 1, "test_pods FAILED"),
        (f"echo no apt > {UNAVAILABLE}; exit {NO_MACHINE}", 0, "skipped: no apt"),
        (f"echo Kernel panic > console.log; echo none > {UNAVAILABLE}; exit {NO_MACHINE}", 0, "console: Kernel panic"),
        (f'echo "$PYKUBELET_V2_CACHE" > {UNAVAILABLE}; exit 1', 0, "{cache}"),
    ],
)
def test_run_prints_the_verdict(
    cache: Path, capfd: pytest.CaptureFixture[str], script: str, status: int, said: str
) -> None:
    assert main(cache, command(cache, script)) == status
    assert said.format(cache=cache) in capfd.readouterr().out


@pytest.mark.root
@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the kernel does not group processes by session")
def test_run_gets_more_of_the_processors_than_other_sessions(cache: Path) -> None:
    """It has a limit by the clock, and other suites run beside it."""
    script = f"until grep -q 'nice -10' /proc/$$/autogroup; do :; done; echo 9.0 1 > {BOOTED}"
    assert main(cache, command(cache, script), seconds=60.0) == 0
    assert (cache / BOOTED).exists()


def test_run_over_its_time_is_ended_with_its_processes(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(cache / "held")
    reader = os.open(cache / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(cache, command(cache, "sleep 1000 > held & wait"), seconds=2.0) == 0
        assert select.select([reader], [], [], 60)[0], "a process has it still open"
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
    assert "skipped: the machine had not booted after" in capfd.readouterr().out


def test_time_of_the_machine_grows_while_it_has_something_to_do(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as busy, subprocess.Popen(["sleep", "1000"]) as idle:
        try:
            for process in (busy, idle):
                (tmp_path / str(process.pid)).mkdir()
                (tmp_path / str(process.pid) / BOOTED).write_text(f"18.0 {process.pid}\n")
            wait_for(lambda: smoke._used(tmp_path / str(busy.pid)) > 0.5, 60, lambda: "no time")
            assert smoke._used(tmp_path / str(idle.pid)) < 0.5
        finally:
            busy.kill()
            idle.kill()
    assert smoke._used(tmp_path / str(busy.pid)) == smoke._used(tmp_path) == 0.0


def test_run_without_root_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert main(tmp_path, [sys.executable, "-c", "raise SystemExit(1)"]) == 0
    assert "skipped: needs root" in capfd.readouterr().out


def test_run_whose_packages_cannot_be_installed_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(smoke, "_LEAST_MEMORY", 0)
    monkeypatch.setattr(smoke, "_limited", lambda *_: (100, 0.0))
    assert main(tmp_path, [sys.executable, "-c", "raise SystemExit(1)"]) == 0
    assert "skipped: the Debian packages e2fsprogs, mmdebstrap, qemu-system-x86 cannot be" in capfd.readouterr().out
