"""The firewall rule of a network, with a script in place of iptables."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.cni.masquerade import Firewall
from pykubelet.criserver.cni.types import Masquerade
from pykubelet.testing.clock import VirtualClock

SCRIPT = """#!/bin/sh
shift 3
word=$1; shift
echo "$(basename "$0") $word" >> {folder}/calls
case $word in
  -C) grep -qxF -- "$*" {folder}/rules ;;
  -A) test -e {folder}/rules && echo "$*" >> {folder}/rules ;;
esac
"""
IPV4, IPV6 = Masquerade("b0", "10.1.0.0/16"), Masquerade("b0", "fd00::/64")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("iptables", "ip6tables"):
        (tmp_path / name).write_text(SCRIPT.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def _calls(folder: Path) -> list[str]:
    calls = (folder / "calls").read_text().splitlines()
    (folder / "calls").unlink()
    return calls


async def test_a_rule_is_made_once_and_looked_for_now_and_then(folder: Path) -> None:
    (folder / "rules").touch()
    clock = VirtualClock()
    firewall = Firewall(clock, {})
    for _ in range(2):
        await firewall.ensure(IPV4)
    assert _calls(folder) == ["iptables -C", "iptables -A"]
    (rule,) = (folder / "rules").read_text().splitlines()
    assert "POSTROUTING -s 10.1.0.0/16 ! -d 224.0.0.0/4 ! -o b0 " in rule
    assert rule.endswith("-j MASQUERADE")
    await firewall.ensure(IPV6)
    assert _calls(folder) == ["ip6tables -C", "ip6tables -A"]
    await clock.advance(301)
    await firewall.ensure(IPV4)
    assert _calls(folder) == ["iptables -C"]
    (folder / "rules").write_text("")  # somebody has flushed them
    await clock.advance(301)
    await firewall.ensure(IPV4)
    assert _calls(folder) == ["iptables -C", "iptables -A"]


async def test_a_rule_that_cannot_be_made(folder: Path) -> None:
    firewall = Firewall(VirtualClock(), {})
    with pytest.raises(Transient, match="pods of b0 cannot be let out"):
        await firewall.ensure(IPV4)
    (folder / "rules").touch()
    await firewall.ensure(IPV4)
