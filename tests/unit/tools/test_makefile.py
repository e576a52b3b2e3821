"""Targets of the Makefile that need root, for an unprivileged user."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but what make reads, and a program ``id`` that tells of another user than root."""
    (tmp_path / "tools").mkdir()
    for file in (
        *(ROOT / name for name in ("Makefile", "pyproject.toml", "requirements.lock")),
        *(ROOT / "tools").glob("*.txt"),
        *(ROOT / "tools").glob("*.sh"),
    ):
        shutil.copy(file, tmp_path / file.relative_to(ROOT))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "bin/id").chmod(0o755)
    return tmp_path


def make(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    environment = {**kept, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C"}
    return subprocess.run(["make", *words], cwd=checkout, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("target", ["run", "clean-run", "test", "test-v2", "integration", "bench", "faults", "churn"])
def test_target_that_needs_root_says_so_before_anything_is_installed(checkout: Path, target: str) -> None:
    before = sorted(checkout.rglob("*"))
    done = make(checkout, target)
    assert done.returncode == 2
    assert f"make {target} needs root: run `sudo make {target}`, or in a shell of root `make {target}`" in done.stderr
    assert (done.stdout, sorted(checkout.rglob("*"))) == ("", before)


@pytest.mark.parametrize("target", ["help", "check", "quick", "lint", "unit", "wheel"])
def test_other_targets_are_for_every_user(checkout: Path, target: str) -> None:
    done = make(checkout, "--dry-run", target)
    assert (done.returncode, "needs root" in done.stderr) == (0, False), done.stderr
