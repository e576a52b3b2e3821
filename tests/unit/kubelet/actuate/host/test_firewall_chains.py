"""The chains of the firewall: with programs of the test, and with iptables in a network namespace of its own."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from pykubelet.base.proc import run
from pykubelet.kubelet.actuate.host.firewall_chains import FirewallChains
from pykubelet.linux import iptables
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.patience import PATIENCE
from pykubelet.testing.wait import until

PROGRAM = """#!/bin/sh
case "$1" in --version) echo "iptables v1.8.9 ($(cat {log}.kind))"; exit ;; esac
shift
echo "$@" >> {log}
case "$*" in
  *" -S "* | *" -C "*) test -e "{log}.$4" ;;
  *) : > "{log}.$4" ;;
esac
"""
LOOKS = ["mangle -S KUBE-IPTABLES-HINT", "filter -S KUBE-FIREWALL", "filter -C KUBE-FIREWALL"]
JUMPS = ["filter -C OUTPUT -j KUBE-FIREWALL", "filter -C INPUT -j KUBE-FIREWALL"]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File with the calls of iptables; ip6tables is missing."""
    log = tmp_path / "log"
    (tmp_path / "log.kind").write_text("legacy")
    (tmp_path / "iptables").write_text(PROGRAM.format(log=log))
    (tmp_path / "iptables").chmod(0o755)
    # Programs that the one of the test needs, and no others.
    (tmp_path / "cat").symlink_to(shutil.which("cat") or "cat")
    monkeypatch.setenv("PATH", str(tmp_path))
    return log


def calls(log: Path) -> list[str]:
    """The calls since the last time, without the fields of the rule."""
    found = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [line.removeprefix("-t ").partition(" -d ")[0] for line in found]


async def test_missing_program_does_not_delay_the_other(log: Path) -> None:
    clock = VirtualClock()
    task = asyncio.create_task(FirewallChains(clock).run())
    try:
        await until(lambda: bool(clock.sleepers))
        made = calls(log)
        assert made[:2] == [LOOKS[0], "mangle -N KUBE-IPTABLES-HINT"]
        (log.parent / "log.KUBE-IPTABLES-HINT").unlink()
        await clock.advance(60)
        await until(lambda: bool(clock.sleepers))
        assert calls(log)[:2] == made[:2]
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_missing_chains_and_rules_are_created_and_present_ones_kept(log: Path) -> None:
    chains = FirewallChains(VirtualClock())
    await chains.ensure(iptables.IPV4)
    # The program of the test does not tell a chain from its rules.
    assert [call for call in calls(log) if call not in LOOKS and call not in JUMPS] == [
        "mangle -N KUBE-IPTABLES-HINT",
        "filter -N KUBE-FIREWALL",
        "filter -I OUTPUT -j KUBE-FIREWALL",
        "filter -I INPUT -j KUBE-FIREWALL",
    ]
    for _ in range(2):
        await chains.ensure(iptables.IPV4)
        assert calls(log) == [*LOOKS, *JUMPS]
    (log.parent / "log.INPUT").unlink()
    await chains.ensure(iptables.IPV4)
    assert calls(log) == [*LOOKS, *JUMPS, "filter -I INPUT -j KUBE-FIREWALL"]


async def test_rules_are_looked_for_only_if_the_kernel_has_other_rules_than_before(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (log.parent / "log.kind").write_text("nf_tables")
    generation = 1
    monkeypatch.setattr(iptables, "nftables_generation", lambda: generation)
    chains = FirewallChains(VirtualClock())
    await chains.ensure(iptables.IPV4)
    assert calls(log)
    await chains.ensure(iptables.IPV4)
    assert calls(log) == [*LOOKS, *JUMPS]  # the agent itself has changed the rules meanwhile
    await chains.ensure(iptables.IPV4)
    assert not log.exists()
    generation = 2
    await chains.ensure(iptables.IPV4)
    assert calls(log) == [*LOOKS, *JUMPS]


REAL = """
import asyncio, json, socket, subprocess, sys
from pykubelet.base.clock import SystemClock
from pykubelet.kubelet.actuate.host.firewall_chains import FirewallChains

ATTACK = '''
import socket
try:
    socket.create_connection(("127.0.0.1", 4567), timeout=SECONDS).close()
    print("connected")
except OSError as error:
    print(error)
'''

def shell(*lines):
    for line in lines:
        subprocess.run(line.split(), check=True)

def attack(other, seconds):
    code = ATTACK.replace("SECONDS", str(seconds))
    argv = ["nsenter", "-t", str(other.pid), "-n", sys.executable, "-c", code]
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode().strip()

def rules(program, table):
    argv = [program, "-w", "-t", table, "-S"]
    return subprocess.run(argv, capture_output=True, check=True).stdout.decode().splitlines()

async def main():
    server = socket.create_server(("127.0.0.1", 4567))
    argv = ["unshare", "-n", "sh", "-c", "echo; read end"]
    other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    other.stdout.readline()
    there = f"nsenter -t {other.pid} -n"
    shell(
        "ip link set lo up",
        f"ip link add name near type veth peer name far netns {other.pid}",
        "ip addr add 10.9.8.1/24 dev near",
        "ip link set near up",
        "sysctl -qw net.ipv4.conf.near.route_localnet=1",
        f"{there} ip addr add 10.9.8.2/24 dev far",
        f"{there} ip link set far up",
        f"{there} sysctl -qw net.ipv4.conf.far.route_localnet=1",
        f"{there} ip route add 127.0.0.1 via 10.9.8.1 dev far src 10.9.8.2",
    )
    found = {"before": attack(other, 10 * PATIENCE)}
    chains = FirewallChains(SystemClock())
    for _ in range(3):
        await chains.ensure("iptables")
    found |= {"after": attack(other, 1), "rules": rules("iptables", "filter"), "hint": rules("iptables", "mangle")}
    socket.create_connection(("127.0.0.1", 4567), timeout=10 * PATIENCE).close()
    shell("iptables -w -F KUBE-FIREWALL")
    await chains.ensure("iptables")
    found["again"] = rules("iptables", "filter")
    if SIX:
        await chains.ensure("ip6tables")
        found |= {"hint6": rules("ip6tables", "mangle"), "rules6": rules("ip6tables", "filter")}
    other.communicate()
    print(json.dumps(found))

asyncio.run(main())
"""
RULE = (
    "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "
    '"block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP'
)


@pytest.mark.root
async def test_chains_of_the_real_programs_drop_packets_of_other_hosts_to_loopback_addresses() -> None:
    if not shutil.which("iptables"):
        pytest.skip("there is no iptables")
    six = shutil.which("ip6tables") is not None
    code = REAL.replace("SIX", str(six)).replace("PATIENCE", str(PATIENCE))
    done = await run(["unshare", "-n", sys.executable, "-c", code], timeout=60 * PATIENCE, env=dict(os.environ))
    found = json.loads(done.stdout)
    assert (found["before"], found["after"]) == ("connected", "timed out")
    assert {"-A INPUT -j KUBE-FIREWALL", "-A OUTPUT -j KUBE-FIREWALL", RULE} <= set(found["rules"])
    assert len([rule for rule in found["rules"] if "KUBE-FIREWALL" in rule]) == 4
    assert found["again"] == found["rules"]
    assert "-N KUBE-IPTABLES-HINT" in found["hint"]
    if six:
        assert "-N KUBE-IPTABLES-HINT" in found["hint6"]
        assert not [rule for rule in found["rules6"] if "KUBE-FIREWALL" in rule]
