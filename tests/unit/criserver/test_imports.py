"""Imports of the runtime server on start: a module that few configurations use is imported with its first use."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    """The modules that are there when the server's own have been imported."""
    code = "import sys, pykubelet.criserver.main; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return frozenset(done.stdout.split())


def test_the_server_is_loaded(loaded: frozenset[str]) -> None:
    assert "pykubelet.criserver.compose.handlers" in loaded


@pytest.mark.parametrize(
    ("module", "user"),
    [
        ("yaml", "a configuration in YAML"),
        ("jeepney", "the systemd cgroup driver"),
        ("opentelemetry", "tracing"),
        ("cryptography", "policies of signatures"),
        ("pykubelet.criserver.shim.shim_runtime", "handlers of the type shim"),
    ],
)
def test_module_of_a_rare_use_is_not_imported_at_the_start(loaded: frozenset[str], module: str, user: str) -> None:
    assert module not in loaded, f"only {user} needs it"
