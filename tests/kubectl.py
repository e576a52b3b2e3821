"""Run the real kubectl in tests."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pykubelet.testing.patience import PATIENCE


def program() -> str:
    """Path of kubectl; empty if it is not installed."""
    in_assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nonexistent"), "kubectl")
    return str(in_assets) if in_assets.is_file() else shutil.which("kubectl") or ""


needs_kubectl = pytest.mark.skipif(
    not program(), reason="needs kubectl: put it into KUBEBUILDER_ASSETS or into the PATH"
)


@dataclass
class Kubectl:
    """Runs kubectl as the user of a kubeconfig."""

    kubeconfig: Path
    why: Callable[[], str]

    def command(self, *arguments: str) -> list[str]:
        return [program(), "--kubeconfig", str(self.kubeconfig), "--cache-dir", f"{self.kubeconfig}.cache", *arguments]

    def __call__(self, *arguments: str, given: str = "", code: int = 0) -> str:
        """Run a command; returns its output. AssertionError for another exit status."""
        done = subprocess.run(
            self.command(*arguments), input=given, capture_output=True, text=True, timeout=60 * PATIENCE
        )
        assert done.returncode == code, f"kubectl {arguments}: {done.stdout}{done.stderr}\n{self.why()}"
        return done.stdout + done.stderr
