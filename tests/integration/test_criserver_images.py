"""``pykubelet image`` on a terminal, with the runtime server and a registry: progress bars, archives, leftovers."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykubelet.testing.agent import environment
from pykubelet.testing.registry import Registry
from pykubelet.testing.runtime import PrivateRuntime
from pykubelet.testing.terminal import Terminal

pytestmark = [pytest.mark.root, pytest.mark.runtime, pytest.mark.only_on("criserver")]


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path) as running:
        yield running


def _command(daemon: PrivateRuntime, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pykubelet.cli", "image", "--endpoint", daemon.endpoint, *arguments]


def _run(daemon: PrivateRuntime, *arguments: str) -> str:
    done = subprocess.run(_command(daemon, *arguments), capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_image_commands_on_a_terminal_show_progress_and_results(
    daemon: PrivateRuntime, registry: Registry, tmp_path: Path
) -> None:
    """Pull with progress bars, list, export, remove, import under the same name, remove."""
    reference = registry.add("shown", files={"/own": registry.host.encode()})
    registry.hold()
    with Terminal(_command(daemon, "pull", reference), env=environment()) as terminal:
        terminal.until(lambda shown: "downloading" in shown and "━" in shown)
        registry.release()
        assert terminal.end() == 0, terminal.shown
        assert "done" in terminal.shown
    assert reference.rpartition(":")[0] in _run(daemon, "ls")
    (details,) = json.loads(_run(daemon, "inspect", reference))
    assert terminal.shown.rstrip().endswith(details["status"]["id"])
    for name in ("image.tar", "again.tar"):
        _run(daemon, "export", "-o", str(tmp_path / name), reference)
        with tarfile.open(tmp_path / name) as archive:
            assert {"oci-layout", "index.json", "manifest.json"} <= set(archive.getnames())
        _run(daemon, "rm", reference)
        assert registry.host not in _run(daemon, "ls")
        assert _run(daemon, "import", str(tmp_path / name)).startswith(f"{reference} ")
        assert json.loads(_run(daemon, "inspect", reference))[0]["status"]["id"] == details["status"]["id"]
    assert (tmp_path / "image.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    _run(daemon, "rm", reference)


def test_pull_is_cancelled_by_ctrl_c(daemon: PrivateRuntime, registry: Registry) -> None:
    reference = registry.add("broken-off", files={"/own": registry.host.encode()})
    registry.hold()
    with Terminal(_command(daemon, "pull", reference), env=environment()) as terminal:
        terminal.until(lambda shown: "downloading" in shown)
        terminal.type("\x03")
        assert terminal.end() != 0
    registry.release()
    assert registry.host not in _run(daemon, "ls")
