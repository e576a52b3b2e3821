"""The firewall rule of a network, with a script in place of iptables."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.cni.masquerade import Firewall
from pykubelet.criserver.cni.network_types import Masquerade
from pykubelet.testing.clock import VirtualClock

SCRIPT = """#!/bin/sh
shift 3
word=$1; shift
echo "$(basename "$0") $word" >> {directory}/calls
case $word in
  -C) grep -qxF -- "$*" {directory}/rules ;;
  -A) test -e {directory}/rules && echo "$*" >> {directory}/rules ;;
esac
"""
IPV4, IPV6 = Masquerade("b0", "10.1.0.0/16"), Masquerade("b0", "fd00::/64")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("iptables", "ip6tables"):
        (tmp_path / name).write_text(SCRIPT.format(directory=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def _calls(directory: Path) -> list[str]:
    calls = (directory / "calls").read_text().splitlines()
    (directory / "calls").unlink()
    return calls


async def test_a_rule_is_made_once_and_looked_for_now_and_then(directory: Path) -> None:
    (directory / "rules").touch()
    clock = VirtualClock()
    firewall = Firewall(clock, {})
    for _ in range(2):
        await firewall.ensure(IPV4)
    assert _calls(directory) == ["iptables -C", "iptables -A"]
    (rule,) = (directory / "rules").read_text().splitlines()
    assert "POSTROUTING -s 10.1.0.0/16 ! -d 224.0.0.0/4 ! -o b0 " in rule
    assert rule.endswith("-j MASQUERADE")
    await firewall.ensure(IPV6)
    assert _calls(directory) == ["ip6tables -C", "ip6tables -A"]
    await clock.advance(301)
    await firewall.ensure(IPV4)
    assert _calls(directory) == ["iptables -C"]
    (directory / "rules").write_text("")  # another process has flushed them
    await clock.advance(301)
    await firewall.ensure(IPV4)
    assert _calls(directory) == ["iptables -C", "iptables -A"]


async def test_a_rule_that_cannot_be_made(directory: Path) -> None:
    firewall = Firewall(VirtualClock(), {})
    with pytest.raises(Transient, match="cannot masquerade pods of b0"):
        await firewall.ensure(IPV4)
    (directory / "rules").touch()
    await firewall.ensure(IPV4)
