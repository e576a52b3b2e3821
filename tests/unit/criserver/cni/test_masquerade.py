"""The firewall rules of a network, with a script in place of iptables."""

import errno
from pathlib import Path

import pytest

from pykubelet.base.errors import Transient
from pykubelet.criserver.cni.masquerade import Firewall
from pykubelet.criserver.cni.network_types import Masquerade
from pykubelet.linux import iptables
from pykubelet.testing.clock import VirtualClock

SCRIPT = """#!/bin/sh
case $0 in
  *-restore)
    basename "$0" >> {directory}/calls
    while read -r line; do
      case $line in
        \\**) table=${{line#?}} ;;
        -C*) eval "set -- $line"; shift; grep -qxF -- "$*" {directory}/$table || exit 1 ;;
      esac
    done
    exit 0 ;;
  *) if [ "$1" = --version ]; then cat {directory}/version; exit; fi ;;
esac
table=$3 word=$4
shift 4
echo "$(basename "$0") $table $word" >> {directory}/calls
case $word in
  -C) grep -qxF -- "$*" {directory}/$table ;;
  -A) test -e {directory}/$table && echo "$*" >> {directory}/$table ;;
esac
"""
TABLES = ("nat", "mangle")
RULES = ("nat", "mangle", "mangle")
MADE = [f"iptables {table} {word}" for table in RULES for word in ("-C", "-A")]
IPV4, IPV6 = Masquerade("b0", "10.1.0.0/16"), Masquerade("b0", "fd00::/64")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("iptables", "iptables-restore", "ip6tables"):
        (tmp_path / name).write_text(SCRIPT.format(directory=tmp_path))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "version").write_text("iptables v1.8.9 (legacy)\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def _create_tables(directory: Path) -> None:
    for table in TABLES:
        (directory / table).touch()


def _calls(directory: Path) -> list[str]:
    calls = (directory / "calls").read_text().splitlines()
    (directory / "calls").unlink()
    return calls


async def _made(directory: Path) -> tuple[VirtualClock, Firewall]:
    """A firewall that has just made its rules."""
    _create_tables(directory)
    clock = VirtualClock()
    firewall = Firewall(clock, {})
    await firewall.ensure(IPV4)
    _calls(directory)
    return clock, firewall


async def test_a_rule_is_made_once_and_looked_for_now_and_then(directory: Path) -> None:
    _create_tables(directory)
    clock = VirtualClock()
    firewall = Firewall(clock, {})
    for _ in range(2):
        await firewall.ensure(IPV4)
    assert _calls(directory) == MADE
    (rule,) = (directory / "nat").read_text().splitlines()
    assert "POSTROUTING -s 10.1.0.0/16 ! -d 224.0.0.0/4 ! -o b0 " in rule
    assert rule.endswith("-j MASQUERADE")
    await firewall.ensure(IPV6)
    assert _calls(directory) == ["ip6tables nat -C", "ip6tables nat -A"]
    await clock.advance(61)
    await firewall.ensure(IPV4)
    assert _calls(directory) == ["iptables-restore"]
    for table in TABLES:  # another process has flushed one of them
        (directory / table).write_text("")
        await clock.advance(61)
        await firewall.ensure(IPV4)
        assert f"iptables {table} -A" in _calls(directory)
    await clock.advance(61)
    await firewall.ensure(IPV4)
    assert _calls(directory) == ["iptables-restore"]


class Kernel:
    """Counts changes of the rules, or has no nftables."""

    def __init__(self) -> None:
        self.generation: int | None = 7

    def reported(self) -> int:
        if self.generation is None:
            raise OSError(errno.EPROTONOSUPPORT, "no nftables")
        return self.generation


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(iptables, "nftables_generation", made.reported)
    return made


async def test_rules_are_looked_for_only_if_the_kernel_has_other_rules_than_before(
    directory: Path, kernel: Kernel
) -> None:
    """Two programs a minute would be a tenth of what an idle server takes."""
    (directory / "version").write_text("iptables v1.8.9 (nf_tables)\n")
    clock, firewall = await _made(directory)
    await clock.advance(61)
    await firewall.ensure(IPV4)
    assert _calls(directory) == ["iptables-restore"]  # others may have changed them since
    for _ in range(3):
        await clock.advance(61)
        await firewall.ensure(IPV4)
    assert not (directory / "calls").exists()
    kernel.generation = 8
    (directory / "nat").write_text("")
    await clock.advance(61)
    await firewall.ensure(IPV4)
    assert "iptables nat -A" in _calls(directory)
    kernel.generation = None
    for _ in range(2):
        await clock.advance(61)
        await firewall.ensure(IPV4)
        assert _calls(directory) == ["iptables-restore"]


async def test_rule_that_could_not_be_made_is_tried_again_though_the_kernel_has_the_same_rules(
    directory: Path, kernel: Kernel
) -> None:
    (directory / "version").write_text("iptables v1.8.9 (nf_tables)\n")
    (directory / "nat").touch()
    clock = VirtualClock()
    firewall = Firewall(clock, {})
    for _ in range(3):
        await firewall.ensure(IPV4)
        await clock.advance(61)
    _create_tables(directory)
    await firewall.ensure(IPV4)
    assert len((directory / "mangle").read_text().splitlines()) == 2


async def test_rules_that_are_not_those_of_nftables_are_looked_for_each_minute(directory: Path, kernel: Kernel) -> None:
    clock, firewall = await _made(directory)
    for _ in range(3):
        await clock.advance(61)
        await firewall.ensure(IPV4)
        assert _calls(directory) == ["iptables-restore"]


async def test_rules_are_looked_for_one_by_one_without_the_program_that_looks_for_all(directory: Path) -> None:
    (directory / "iptables-restore").unlink()
    clock, firewall = await _made(directory)
    await clock.advance(61)
    await firewall.ensure(IPV4)
    assert _calls(directory) == [f"iptables {table} -C" for table in RULES]


async def test_a_rule_that_cannot_be_made(directory: Path) -> None:
    firewall = Firewall(VirtualClock(), {})
    with pytest.raises(Transient, match="cannot masquerade pods of b0"):
        await firewall.ensure(IPV4)
    _create_tables(directory)
    await firewall.ensure(IPV4)


async def test_packets_of_pods_to_and_from_loopback_addresses_are_dropped(directory: Path) -> None:
    """With route_localnet, which the portmap plugin sets on the bridge, the kernel takes them (CVE-2020-8558)."""
    _create_tables(directory)
    await Firewall(VirtualClock(), {}).ensure(IPV4)
    assert (directory / "mangle").read_text().splitlines() == [
        f"PREROUTING -i b0 {end} 127.0.0.0/8 -m comment --comment pods of b0 -j DROP" for end in ("-d", "-s")
    ]


async def test_pods_start_without_that_rule_and_a_warning_says_so(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (directory / "nat").touch()
    clock = VirtualClock()
    firewall = Firewall(clock, {})
    for _ in range(2):
        await firewall.ensure(IPV4)
        await clock.advance(61)
    (record,) = caplog.records
    assert record.message == "pods can reach servers that listen on the node's loopback addresses"
    assert vars(record)["bridge"] == "b0"
    assert vars(record)["error"]
