"""Graceful node shutdown with the real logind: it waits for the inhibitor lock, and pods end by priority meanwhile."""

import json
from typing import Any

import pytest

from tests.v2.guest import pods, wait_running
from tests.v2.node import Node

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
ENDS = "/var/lib/ends"
"""Directory of the machine in which pods write when they have been told to end."""
GRACE = 5
"""Grace period, in seconds, of the pod that does not end by itself."""
SLACK = 60
"""Seconds that the emulated machine may take longer."""
BY_PRIORITY = [
    {"priority": 0, "shutdownGracePeriodSeconds": 300},
    {"priority": 1000, "shutdownGracePeriodSeconds": 200},
]
PODS = ("early", "stubborn", "late")
TELL = "echo $(cut -d. -f1 /proc/uptime)"


def ending(node: Node, name: str, on_term: str, **spec: Any) -> None:
    """Add a pod that runs a command on SIGTERM and writes the machine's uptime into ``NAME`` every second."""
    script = f"trap '{TELL} > /ends/{name}.term; {on_term}' TERM; while :; do {TELL} > /ends/{name}; sleep 1; done"
    mounts = {"volumeMounts": [{"name": "ends", "mountPath": "/ends"}]}
    volumes = [{"name": "ends", "hostPath": {"path": ENDS, "type": "DirectoryOrCreate"}}]
    node.add(name, script, container=mounts, volumes=volumes, **spec)


@pytest.fixture(scope="module")
def shutting(node: Node) -> Any:
    """A node with a graceful shutdown, and its pods."""
    node.configure(shutdownGracePeriodByPodPriority=BY_PRIORITY)
    ending(node, "early", "exit 0", priority=10, terminationGracePeriodSeconds=SLACK)
    ending(node, "stubborn", ":", priority=20, terminationGracePeriodSeconds=GRACE)
    ending(node, "late", "exit 0", priority=2000, terminationGracePeriodSeconds=SLACK)
    yield node.ask(wait_running, *PODS)
    node.remove(*PODS)
    node.shell(f"rm -r {ENDS}")


def test_inhibitor_lock_is_listed_and_logind_waits_long_enough(node: Node, shutting: dict[str, Any]) -> None:
    assert set(shutting) == set(PODS), (shutting, node.logs())
    rows = [line.split() for line in node.shell("systemd-inhibit --list --no-pager --no-legend").out.splitlines()]
    (row,) = [row for row in rows if row[0] == "kubelet"]
    assert "shutdown" in row and row[-1] == "delay", rows
    asked = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager"
    delay = node.shell(f"{asked} InhibitDelayMaxUSec").out.split()[1]
    assert int(delay) >= 500_000_000, "the agent has raised logind's 5 s to the sum of the periods"


def test_reboot_waits_until_the_pods_have_ended_in_the_order_of_their_priority(
    node: Node, shutting: dict[str, Any]
) -> None:
    node.machine.reboot()
    names = [name if when == "end" else f"{name}.term" for name in PODS for when in ("term", "end")]
    read = node.shell(f"cd {ENDS} && for name in {' '.join(f'{name}.term' for name in PODS)}; do cat $name; done").out
    reported = dict(zip(PODS, map(int, read.split()), strict=True))
    state = json.loads(node.shell("cat /var/lib/pykubelet/graceful_node_shutdown_state").out)
    assert state["startTime"] < state["endTime"], state
    assert reported["early"] <= reported["late"] and reported["stubborn"] + GRACE - 1 <= reported["late"], (
        reported,
        names,
    )
    assert reported["late"] - reported["stubborn"] <= GRACE + 2 * SLACK, "it was killed after its grace period"


def test_pods_run_again_after_the_shutdown(node: Node, shutting: dict[str, Any]) -> None:
    after = node.ask(wait_running, *PODS)
    assert set(after) == set(PODS), (after, node.logs())
    for name in PODS:
        assert after[name]["phase"] == "Running" and after[name]["uid"] == shutting[name]["uid"], (after, node.logs())
        assert after[name]["containers"]["main"]["id"] != shutting[name]["containers"]["main"]["id"]
    assert set(node.ask(pods, *PODS)) == set(PODS)
