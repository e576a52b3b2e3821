"""``install`` and ``uninstall``: the units, and what is written where."""

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykubelet.base.errors import Invalid
from pykubelet.cli.app import cli
from pykubelet.cli.plan.systemd_units import AGENT_UNIT, SERVER_UNIT, command_line


def _run(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


@pytest.mark.root
def test_units_are_written_and_removed_again(tmp_path: Path) -> None:
    units, manifests = tmp_path / "units", tmp_path / "manifests"
    flags = ("--unit-dir", str(units))
    shown = _run("install", "--dry-run", *flags)
    assert shown.exit_code == 0 and not units.exists()
    written = _run("install", *flags, "--manifests", str(manifests))
    assert written.exit_code == 0 and "systemctl enable --now" in written.stdout, written.output
    assert sorted(path.name for path in units.iterdir()) == [SERVER_UNIT, AGENT_UNIT] and manifests.is_dir()
    server, agent = (units / SERVER_UNIT).read_text(), (units / AGENT_UNIT).read_text()
    assert (
        f"--manifests {manifests} --container-runtime-endpoint unix:///run/pykubelet/criserver/criserver.sock" in agent
    )
    for text in (server, agent):
        expected = {"Type=notify", "WatchdogSec=120", "KillMode=process", "Restart=always", "TimeoutStartSec=300"}
        assert expected | {"ExecReload=/bin/kill -HUP $MAINPID"} <= set(text.splitlines())
    assert _run("uninstall", "--dry-run", *flags).stdout.count("would remove") == 2
    assert len([*units.iterdir()]) == 2
    assert _run("uninstall", *flags).stdout.count("removed") == 2
    assert [*units.iterdir()] == []
    assert "no units" in _run("uninstall", *flags).stdout


@pytest.mark.root
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    _run("install", "--unit-dir", str(tmp_path), "--manifests", str(tmp_path / "a dir with $5 and 100%"))
    units = [str(tmp_path / name) for name in (SERVER_UNIT, AGENT_UNIT)]
    checked = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    ours = [line for line in checked.stderr.splitlines() if "pykubelet" in line]
    assert ours == [], checked.stderr


def test_words_are_quoted_for_systemd() -> None:
    assert command_line(["/bin/x", "a b", "100%", "$HOME", 'q"', ""]) == '/bin/x "a b" 100%% $$HOME "q\\"" ""'


@pytest.mark.root
@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd runs here")
def test_now_without_systemd_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    refused = _run("install", "--now", "--unit-dir", str(tmp_path / "units"))
    assert isinstance(refused.exception, Invalid) and "systemd does not run" in str(refused.exception)
    assert not (tmp_path / "units").exists()
    assert [*tmp_path.iterdir()] == []
