"""The CRI contract suite on the session's real runtime; without the variables it runs only on the fake."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykubelet.testing.runtime import PrivateRuntime
from tests.manifests import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_contract_holds(daemon: PrivateRuntime) -> None:
    variables = {"PYKUBELET_TEST_CRI_ENDPOINT": daemon.endpoint, "PYKUBELET_TEST_IMAGE": BUSYBOX}
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-k", "real", "tests/contract/cri"]
    done = subprocess.run(command, cwd=root, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "skipped" not in done.stdout.splitlines()[-1]
