"""Modules of the runtime server that the agent loads: none, when it runs on another runtime."""

import subprocess
import sys

_ENTRY = "import sys, pykubelet.cli.commands.node.run, pykubelet.kubelet.main"
_EMBEDDED = "import pykubelet.cli.embedded_server"


def _server_modules(*statements: str) -> set[str]:
    code = "; ".join((*statements, "print(*sys.modules)"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return {name for name in done.stdout.split() if name.startswith("pykubelet.criserver")}


def test_an_agent_on_another_runtime_loads_nothing_of_the_server() -> None:
    assert _server_modules(_ENTRY) == set()


def test_an_agent_with_its_own_server_loads_settings_and_supervision_only() -> None:
    packages = {name.split(".")[2] for name in _server_modules(_ENTRY, _EMBEDDED) if name.count(".") > 1}
    assert packages == {"config", "directories", "embedded", "processes", "types"}
