"""The CRI contract suite on the session's real runtime; without the variables it runs only on the fake."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(600)]


def test_contract_suite_passes_on_the_runtime(
    daemon: PrivateRuntime, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    variables = {"PYKUBELET_TEST_CRI_ENDPOINT": daemon.endpoint, "PYKUBELET_TEST_IMAGE": BUSYBOX}
    root = Path(__file__).resolve().parents[2]
    # A directory of its own: pytest removes old ones of earlier runs, and fails if another run does so as well.
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={tmp_path / 't'}", "-k", "real", "tests/contract/cri"]
    # Programs of the other runtime need not be there.
    command.append(f"--runtime={request.config.getoption('--runtime')}")
    jumps = request.config.getoption("--clock-jumps")
    command += ["--clock-jumps"] if jumps else []
    done = subprocess.run(command, cwd=root, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
    assert jumps or "skipped" not in done.stdout.splitlines()[-1]
