"""The short form: what a machine with cgroup v2 and systemd must do at least.

The tests build on each other, because each pod and each boot takes long: run all of them.
"""

from collections.abc import Iterator

import pytest

from tests.v2.guest import cgroup_of, wait_container
from tests.v2.node import Node, check_stats
from tools.v2.machine import Machine
from tools.v2.smoke import limited

pytestmark = [pytest.mark.smoke, pytest.mark.root, pytest.mark.timeout(3600)]
LIMITS = {"resources": {"limits": {"memory": "64Mi", "cpu": "250m"}}}
PODS = ("smoke-hog", "smoke-stays", "smoke-privileged")


@pytest.fixture(scope="module")
def pods(node: Node) -> Iterator[None]:
    """A pod that needs more memory than its limit, and two that stay; later modules find none of them."""
    node.add("smoke-hog", "tail /dev/zero", restartPolicy="Never", container=LIMITS)
    node.add("smoke-stays", "exec sleep 1000000", container=LIMITS)
    node.add("smoke-privileged", "exec sleep 1000000", container={"securityContext": {"privileged": True}})
    yield
    if not limited():
        node.remove(*PODS)


def test_the_machine_has_cgroup_v2_systemd_and_apparmor(machine: Machine) -> None:
    done = machine.run(
        "stat -f -c %T /sys/fs/cgroup; cat /proc/1/comm; cat /sys/module/apparmor/parameters/enabled; exit 3"
    )
    assert (done.status, done.out.split()) == (3, ["cgroup2fs", "systemd", "Y"]), done


def test_installed_units_run_a_pod_in_slices_of_systemd(node: Node, pods: None) -> None:
    found = node.ask(wait_container, "smoke-stays", "running")
    assert found["phase"] == "Running", (found, node.logs())
    cgroup = node.ask(cgroup_of, found["id"])
    slices = ["kubepods.slice", f"kubepods-pod{found['uid'].replace('-', '_')}.slice"]
    assert cgroup["path"].startswith("/" + "/".join(slices) + "/") and ".scope" in cgroup["path"], cgroup
    for files in (cgroup["files"], cgroup["above"][slices[1]]):
        assert files["memory.max"] == str(64 << 20) and files["cpu.max"] == "25000 100000", cgroup


def test_memory_limit_ends_the_container_as_oom_killed(node: Node, pods: None) -> None:
    found = node.ask(wait_container, "smoke-hog", "terminated")
    assert (found["reason"], found["exit_code"], found["phase"]) == ("OOMKilled", 137, "Failed"), (found, node.logs())


def test_stats_are_those_of_the_cgroup_files(node: Node, pods: None) -> None:
    check_stats(node, "smoke-stays")


def test_privileged_container_leaves_the_options_of_the_cgroups_of_the_node(node: Node, pods: None) -> None:
    """All mounts of cgroup2 share them; systemd sets nsdelegate, and memory_recursiveprot since Linux 5.7."""
    found = node.ask(wait_container, "smoke-privileged", "running")
    assert found["phase"] == "Running", (found, node.logs())
    options = node.shell("findmnt --noheadings --output FS-OPTIONS /sys/fs/cgroup").out.strip().split(",")
    assert {"nsdelegate", "memory_recursiveprot"} <= set(options), options
