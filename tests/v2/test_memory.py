"""Memory on cgroup v2 with the systemd driver: memory QoS, pressure, and the end of whole containers."""

from typing import Any

import pytest

from tests.v2.guest import cgroup_of, control_files, read_only_summary, wait_container, wait_running
from tests.v2.node import Node

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
MI = 1 << 20
PAGE = 4096
FACTOR = 0.5
PORT = 10255
FILES = ("memory.min", "memory.low", "memory.high", "memory.max", "memory.oom.group")
PODS = ("guaranteed", "burstable", "besteffort")


@pytest.fixture(scope="module")
def cgroups(node: Node) -> Any:
    """The control files of pods of each class, of their containers and of the cgroups above."""
    node.configure(
        featureGates={"MemoryQoS": True},
        memoryThrottlingFactor=FACTOR,
        memoryReservationPolicy="TieredReservation",
        readOnlyPort=PORT,
    )
    same = {"memory": "32Mi", "cpu": "50m"}
    node.add("guaranteed", "exec sleep 1000000", container={"resources": {"limits": same}})
    some = {"requests": {"memory": "16Mi"}, "limits": {"memory": "64Mi"}}
    node.add("burstable", "exec sleep 1000000", container={"resources": some})
    node.add("besteffort", "exec sleep 1000000")
    found = node.ask(wait_running, *PODS)
    assert set(found) == set(PODS), (found, node.logs())
    levels = {
        "guaranteed": "kubepods.slice",
        "burstable": "kubepods.slice/kubepods-burstable.slice",
        "besteffort": "kubepods.slice/kubepods-besteffort.slice",
    }
    files: dict[str, dict[str, dict[str, str]]] = {}
    for name, pod in found.items():
        path = node.ask(cgroup_of, pod["containers"]["main"]["id"])["path"]
        above = path.rpartition("/")[0]
        assert above.strip("/").startswith(levels[name]) and above.endswith(".slice"), path
        places = {"container": path, "pod": above, "level": levels[name]}
        files[name] = {place: node.ask(control_files, where, *FILES) for place, where in places.items()}
    yield files
    node.remove(*PODS)


def test_memory_of_guaranteed_pods_is_protected_and_not_throttled(cgroups: Any) -> None:
    found = cgroups["guaranteed"]
    assert found["container"]["memory.min"] == found["pod"]["memory.min"] == str(32 * MI), found
    assert found["container"]["memory.high"] == "max" and found["container"]["memory.max"] == str(32 * MI), found
    # The cgroup of all pods protects the requests of both classes.
    assert found["level"]["memory.min"] == str(48 * MI), found


def test_memory_of_burstable_pods_is_reclaimed_last_and_throttled_between_request_and_limit(cgroups: Any) -> None:
    found = cgroups["burstable"]
    for place in ("container", "pod", "level"):
        assert (found[place]["memory.low"], found[place]["memory.min"]) == (str(16 * MI), "0"), (place, found)
    assert found["container"]["memory.high"] == str(int(16 * MI + FACTOR * 48 * MI) // PAGE * PAGE), found
    assert found["container"]["memory.max"] == found["pod"]["memory.max"] == str(64 * MI), found


def test_memory_of_besteffort_pods_is_throttled_at_a_part_of_the_node(node: Node, cgroups: Any) -> None:
    found = cgroups["besteffort"]
    for place in ("container", "pod", "level"):
        assert (found[place]["memory.low"], found[place]["memory.min"]) == ("0", "0"), (place, found)
    total = int(node.shell("awk '/MemTotal/ {print $2 * 1024}' /proc/meminfo").out)
    high = int(found["container"]["memory.high"])
    # Allocatable is the machine's memory without the hard eviction threshold, 100Mi.
    assert high == int((total - 100 * MI) * FACTOR) // PAGE * PAGE, (found, total)


def test_oom_kill_ends_all_processes_of_the_container(node: Node, cgroups: Any) -> None:
    # The child takes the memory; without memory.oom.group the shell would survive it and end with 0.
    limits = {"resources": {"limits": {"memory": "32Mi", "cpu": "500m"}}}
    node.add("group", "tail /dev/zero; exec sleep 1000000", restartPolicy="Never", container=limits)
    found = node.ask(wait_container, "group", "terminated")
    assert (found.get("reason"), found.get("exit_code")) == ("OOMKilled", 137), (found, node.logs())
    node.remove("group")
    assert {each["container"]["memory.oom.group"] for each in cgroups.values()} == {"1"}


def test_summary_has_pressure_of_node_pods_and_containers(node: Node, cgroups: Any) -> None:
    summary = node.ask(read_only_summary, PORT)
    seen = {pod["podRef"]["name"].split("-")[0]: pod for pod in summary["pods"]}
    assert set(PODS) <= set(seen), summary
    places = [summary["node"], *(seen[name] for name in PODS), *(seen[name]["containers"][0] for name in PODS)]
    for place in places:
        for psi in (place["cpu"]["psi"], place["memory"]["psi"], place["io"]["psi"]):
            for kind in ("some", "full"):
                assert psi[kind]["total"] >= 0 and 0 <= psi[kind]["avg10"] <= 100, place
    assert summary["node"]["cpu"]["psi"]["some"]["total"] > 0, "one processor, and many processes that start"
