"""The installed units on the real systemd: restarts, kills and reboots, beside pods that must not notice them.

The tests share two pods, because each start takes long.
"""

import re
from typing import Any

import pytest

from tests.v2.guest import events, sandboxes, wait_running, wait_unit
from tests.v2.node import MANIFESTS, UNITS, Node
from tools.v2.image import PROJECT_DIRECTORY
from tools.v2.project import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
PODS = ("demo", "plain")


@pytest.fixture(scope="module")
def pods(node: Node) -> Any:
    """The demo pod and a plain one, which run."""
    node.pykubelet(f"image tag {BUSYBOX} localhost/pykubelet/demo:1")
    # A probe of the demo pod has a second, which is too short for an emulated machine on a busy host.
    patient = f"sed '/Probe:$/a\\      timeoutSeconds: 60' {PROJECT_DIRECTORY}/examples/demo.yaml"
    node.shell(f"cd {MANIFESTS} && {patient} > .demo.new && mv .demo.new demo.json")
    node.add("plain", "exec sleep 1000000")
    yield node.ask(wait_running, *PODS)
    node.remove(*PODS)


def running(node: Node) -> dict[str, Any]:
    """Both pods, all of whose containers run."""
    found: dict[str, Any] = node.ask(wait_running, *PODS)
    assert set(found) == set(PODS), (found, node.logs())
    for pod in found.values():
        assert pod["phase"] == "Running" and all(each["pid"] for each in pod["containers"].values()), (
            found,
            node.logs(),
        )
    return found


def test_installed_units_are_active_and_enabled_and_show_a_status_line(node: Node) -> None:
    for unit in UNITS:
        asked = ("is-active", "is-enabled", "status --no-pager")
        shown = node.shell("; ".join(f"systemctl {each} {unit}" for each in asked))
        lines = [line.strip() for line in shown.out.splitlines()]
        assert lines[:2] == ["active", "enabled"] and 'Status: "Serving"' in lines, shown


def test_demo_pod_of_the_manifest_directory_runs(node: Node, pods: dict[str, Any]) -> None:
    assert set(pods["demo"]["containers"]) == {"web", "ticker"}, (pods, node.logs())
    shown = node.pykubelet("get pods").out
    assert re.search(r"^(default +)?demo-\S+ +2/2 +Running +0 ", shown, re.MULTILINE), shown
    assert "Hello from pykubelet, tick 1 from demo" in node.pykubelet("logs demo ticker").out


@pytest.mark.parametrize("unit", UNITS)
def test_restart_of_a_unit_keeps_containers_and_their_processes(node: Node, pods: dict[str, Any], unit: str) -> None:
    before, pid = running(node), node.main_pids()[unit]
    node.shell(f"systemctl restart {unit}")
    assert node.ask(wait_unit, unit, pid)["StatusText"] == "Serving", node.logs()
    assert running(node) == before


@pytest.mark.parametrize("unit", UNITS)
def test_killed_daemon_is_started_again_and_keeps_containers(node: Node, pods: dict[str, Any], unit: str) -> None:
    before, pid = running(node), node.main_pids()[unit]
    restarts = int(node.shell(f"systemctl show -P NRestarts {unit}").out)
    node.shell(f"systemctl kill --signal=KILL --kill-whom=main {unit}")
    found = node.ask(wait_unit, unit, pid)
    assert found["ActiveState"] == "active" and int(found["NRestarts"]) == restarts + 1, (found, node.logs())
    assert running(node) == before


def test_pod_with_user_namespace_runs_with_installed_units(node: Node, pods: dict[str, Any]) -> None:
    """The runtime server is in the agent's run directory, and has been started again since the agent made it."""
    node.add("mapped", "exec sleep 1000000", hostUsers=False)
    found: dict[str, Any] = node.ask(wait_running, "mapped", seconds=600.0)
    assert set(found) == {"mapped"} and found["mapped"]["phase"] == "Running", (found, node.logs())
    (first,) = (each["pid"] for each in found["mapped"]["containers"].values())
    inside, outside, length = node.shell(f"cat /proc/{first}/uid_map").out.split()
    assert inside == "0" and int(outside) >= int(length) == 65536, (found, node.logs())
    node.remove("mapped")


@pytest.mark.parametrize("how", ["reboot", "power loss"])
def test_pods_run_again_after_the_machine_has_started_again(node: Node, pods: dict[str, Any], how: str) -> None:
    before, reported = running(node), node.ask(events)
    if how == "reboot":
        node.machine.reboot()
    else:
        node.shell("sync")
        node.machine.lose_power()
    after = running(node)
    for name, pod in before.items():
        assert after[name]["uid"] == pod["uid"]
        for container, former in pod["containers"].items():
            assert after[name]["containers"][container]["id"] != former["id"], "it cannot have survived"
            assert after[name]["containers"][container]["restarts"] == former["restarts"] + 1, (before, after)
    counts = node.ask(sandboxes)
    assert set(counts.values()) == {1} and len(counts) >= len(PODS), (counts, node.logs())
    assert reported and set(reported) <= set(node.ask(events)), "events of the time before"
