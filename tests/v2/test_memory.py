"""Memory on cgroup v2 with the systemd driver: memory QoS, pressure, and the end of whole containers."""

from typing import Any

import pytest

from tests.v2.guest import (
    cgroup_of,
    control_files,
    pressure_and_summary,
    usage_pressure,
    wait_container,
    wait_running,
)
from tests.v2.node import Node

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
MI = 1 << 20
PAGE = 4096
FACTOR = 0.5
PORT = 10255
SERVED: dict[str, Any] = {
    "address": "127.0.0.1",
    "readOnlyPort": PORT,
    # Without an API server, the agent only serves if it needs none to authorize its clients.
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
}
FILES = ("memory.min", "memory.low", "memory.high", "memory.max", "memory.oom.group")
PODS = ("guaranteed", "burstable", "besteffort")


@pytest.fixture(scope="module")
def cgroups(node: Node) -> Any:
    """The control files of pods of each class, of their containers and of the cgroups above."""
    node.configure(
        featureGates={"MemoryQoS": True},
        memoryThrottlingFactor=FACTOR,
        memoryReservationPolicy="TieredReservation",
        **SERVED,
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
    total = int(node.shell("awk '/MemTotal/ {print $2}' /proc/meminfo").out) * 1024
    high = int(found["container"]["memory.high"])
    # Allocatable is the machine's memory without the hard eviction threshold, 100Mi.
    assert high == int((total - 100 * MI) * FACTOR) // PAGE * PAGE, (found, total)


def test_oom_kill_ends_all_processes_of_the_container(node: Node, cgroups: Any) -> None:
    found = after_oom_kill_of_a_child(node, "group", "terminated")
    assert (found.get("reason"), found.get("exit_code")) == ("OOMKilled", 137), (found, node.logs())
    node.remove("group")
    assert {each["container"]["memory.oom.group"] for each in cgroups.values()} == {"1"}


def test_summary_has_the_pressure_of_the_control_files(node: Node, cgroups: Any) -> None:
    # Two processes with half a processor wait for it.
    limits = {"resources": {"limits": {"memory": "32Mi", "cpu": "500m"}}}
    node.add("pressed", "while :; do :; done & while :; do :; done", container=limits)
    names = (*PODS, "pressed")
    pods = node.ask(wait_running, *names)
    assert set(pods) == set(names), (pods, node.logs())
    containers = {name: pod["containers"]["main"]["id"] for name, pod in pods.items()}
    found = node.ask(pressure_and_summary, containers, PORT)
    assert set(found["measured"]) == {"node", *names, *(f"{name}/main" for name in names)}, found
    for place, resources in found["measured"].items():
        for resource in ("cpu", "memory", "io"):
            for kind in ("some", "full"):
                before, after = (found[when][place][resource][kind] for when in ("before", "after"))
                line = resources[resource][kind]
                assert before <= line["total"] <= after, (place, resource, kind, before, line, after)
                assert all(0 <= line[average] <= 100 for average in ("avg10", "avg60", "avg300")), (place, line)
    for place in ("node", "pressed", "pressed/main"):
        assert found["before"][place]["cpu"]["some"] > 0, found
    seen = node.ask(usage_pressure, "pressed")
    assert seen["cpu"]["some"]["total"] >= found["before"]["pressed/main"]["cpu"]["some"], (seen, found)
    assert seen["memory"]["some"]["total"] >= found["before"]["pressed/main"]["memory"]["some"], (seen, found)
    node.remove("pressed")


def test_oom_kill_of_a_single_process_leaves_the_container_running(node: Node) -> None:
    node.configure(singleProcessOOMKill=True)
    found = after_oom_kill_of_a_child(node, "single", "running")
    path = node.ask(cgroup_of, found["id"])["path"]
    files = node.ask(control_files, path, "memory.oom.group", "memory.events")
    assert files["memory.oom.group"] == "0", files
    counts = dict(line.split() for line in files["memory.events"].splitlines())
    # The probe's program, which the runtime starts in the cgroup, may be killed as well.
    assert int(counts["oom_kill"]) >= 1 and counts["oom_group_kill"] == "0", files
    node.remove("single")


def after_oom_kill_of_a_child(node: Node, name: str, state: str) -> dict[str, Any]:
    """A container in that state, whose shell has started a process that takes more memory than the limit."""
    limits = {"resources": {"limits": {"memory": "32Mi", "cpu": "500m"}}}
    ready = {"readinessProbe": {"exec": {"command": ["test", "-e", "/survived"]}, "timeoutSeconds": 60}}
    script = "tail /dev/zero; touch /survived; exec sleep 1000000"
    node.add(name, script, restartPolicy="Never", container={**limits, **ready})
    if state == "running":
        assert set(node.ask(wait_running, name)) == {name}, node.logs()
    found: dict[str, Any] = node.ask(wait_container, name, state)
    return found
