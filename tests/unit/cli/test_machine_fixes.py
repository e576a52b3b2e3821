"""``doctor --fix``: what it runs, and what it refuses."""

import io
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.cli.commands.node import doctor
from pykubelet.cli.machine_fixes import apply_fixes, fixes


def test_packages_are_installed_together_and_commands_follow() -> None:
    install = ("apt-get", "install", "-y", "-q", "--no-install-recommends", "runc", "conmon")
    modprobe = ("modprobe", "overlay")
    assert fixes(["runc", "conmon", "runc"], [(), modprobe, modprobe]) == [
        ("apt-get", "update", "-q"),
        install,
        modprobe,
    ]
    assert fixes([], [()]) == []


def test_findings_name_what_fix_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda program: False)
    monkeypatch.setattr(doctor, "_CNI_DIRECTORIES", ())
    found = [*doctor.program_findings(), *doctor._own_server()]
    missing = {name for finding in found for name in finding.packages}
    assert missing == {"runc", "containernetworking-plugins", "iptables", "conmon", "catatonit"}


@pytest.mark.root
def test_commands_run_in_order_and_a_failure_shows_their_output(tmp_path: Path) -> None:
    done = tmp_path / "done"
    with pytest.raises(Permanent, match="the cause"):
        apply_fixes([("touch", str(done)), ("sh", "-c", "echo the cause >&2; exit 3"), ("rm", str(done))], ask=False)
    assert done.exists()
    with pytest.raises(Permanent, match="not installed"):
        apply_fixes([("no-such-program",)], ask=False)


@pytest.mark.root
def test_without_a_terminal_fix_wants_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(Invalid, match="--yes"):
        apply_fixes([("touch", str(tmp_path / "done"))], ask=True)
    assert not (tmp_path / "done").exists()
