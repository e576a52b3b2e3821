"""The verdict of the short form in CI: red only if tests fail in a machine that has booted."""

import os
import sys
from pathlib import Path

import pytest

from tools.v2 import smoke
from tools.v2.smoke import BOOTED, NO_MACHINE, UNAVAILABLE, judge, main


@pytest.mark.parametrize(
    ("status", "booted", "passed", "unavailable", "verdict", "reason"),
    [
        (0, 18.0, 120.0, "", "passed", "120 s"),
        (1, 18.0, 120.0, "", "failed", "status 1"),
        (2, 0.0, 3.0, "", "failed", "status 2"),
        (NO_MACHINE, 0.0, 150.0, "the machine did not boot within 120 s", "skipped", "did not boot within 120 s"),
        (NO_MACHINE, 18.0, 90.0, "qemu has ended", "skipped", "qemu has ended"),
        (None, 0.0, 360.0, "", "skipped", "had not booted after 360 s"),
        (None, 60.0, 360.0, "", "skipped", "the host is slow, the boot took 60 s"),
        (None, 18.0, 360.0, "", "failed", "something hangs"),
    ],
)
def test_verdict_depends_on_the_boot_and_the_status(
    status: int | None, booted: float, passed: float, unavailable: str, verdict: str, reason: str
) -> None:
    found = judge(status, booted, passed, unavailable)
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
        (f"echo 9.0 > {BOOTED}", 0, "passed"),
        (f"echo 9.0 > {BOOTED}; echo test_pods FAILED; exit 1", 1, "test_pods FAILED"),
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


def test_run_over_its_time_is_ended_with_its_processes(cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(cache / "held")
    reader = os.open(cache / "held", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(cache, command(cache, "sleep 1000 > held & wait"), seconds=2.0) == 0
        assert os.read(reader, 1) == b"", "no process has it open"
    finally:
        os.close(reader)
    assert "skipped: the machine had not booted after" in capfd.readouterr().out


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
    monkeypatch.setattr(smoke, "_limited", lambda *_: 100)
    assert main(tmp_path, [sys.executable, "-c", "raise SystemExit(1)"]) == 0
    assert "skipped: the Debian packages e2fsprogs, mmdebstrap, qemu-system-x86 cannot be" in capfd.readouterr().out
