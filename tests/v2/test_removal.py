"""``uninstall`` and ``reset`` on a machine with systemd: nothing of the daemons is left. They run last."""

from typing import Any

import pytest

from tests.v2.guest import traces, wait_running
from tests.v2.node import FILES, UNITS, Node

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
STAYS = {
    "files": {
        "/etc/pykubelet",
        "/etc/pykubelet/config.yaml",
        "/etc/pykubelet/criserver.yaml",
        "/etc/pykubelet/manifests",
        "/etc/pykubelet/manifests/stays.json",
        "/etc/systemd/logind.conf.d",
        "/etc/systemd/logind.conf.d/99-kubelet.conf",
        # Empty: a file in them is not in this list.
        "/etc/cni",
        "/run/netns",
        # The lock of iptables.
        "/run/xtables.lock",
    },
    # Of an agent of the suites inside that was in a cluster.
    "firewall": {
        ":KUBE-IPTABLES-HINT - [0:0]",
        ":KUBE-FIREWALL - [0:0]",
        "-A INPUT -j KUBE-FIREWALL",
        "-A OUTPUT -j KUBE-FIREWALL",
        "-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "
        '"block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
    },
}
"""Traces that stay by the documentation (docs/install.md), and files of other programs: exactly these."""


def left(node: Node) -> dict[str, list[str]]:
    """Traces on the machine that were not there before the installation; ``STAYS`` is left out."""
    found: dict[str, list[str]] = node.ask(traces)
    return {
        kind: [row for row in rows if row not in node.before[kind] and row not in STAYS.get(kind, ())]
        for kind, rows in found.items()
    }


def test_uninstall_removes_the_units_and_keeps_the_pods(node: Node) -> None:
    ports = {"ports": [{"containerPort": 80, "hostPort": 18080}]}
    memory = {"volumeMounts": [{"name": "memory", "mountPath": "/memory"}]}
    volumes = [{"name": "memory", "emptyDir": {"medium": "Memory"}}]
    node.add("stays", "exec sleep 1000000", container={**ports, **memory}, volumes=volumes)
    found: dict[str, Any] = node.ask(wait_running, "stays")
    (container,) = found["stays"]["containers"].values()
    assert container["pid"], (found, node.logs())
    node.pykubelet("uninstall")
    for unit in UNITS:
        assert node.machine.run(f"systemctl cat {unit}").status != 0
        assert node.machine.run(f"test -e /etc/systemd/system/{unit}").status != 0
    node.shell(f"test -e /proc/{container['pid']}/exe")
    seen = left(node)
    assert seen["cgroups"] and seen["mounts"] and seen["links"] and seen["files"], "or reset has nothing to do"


def test_reset_leaves_no_unit_mount_cgroup_link_rule_process_or_file(node: Node) -> None:
    done = node.pykubelet(f"reset --yes --images {FILES}")
    assert "all of it is removed" in done.out, done
    found = {kind: rows for kind, rows in left(node).items() if rows}
    assert found == {}, (found, done)
