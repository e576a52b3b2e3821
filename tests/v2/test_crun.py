"""crun on systemd: what the short form tests with runc. crun keeps limits in a cgroup below the container's scope."""

from collections.abc import Iterator

import pytest

from tests.v2.guest import cgroup_of, wait_container
from tests.v2.node import Node, check_stats

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
LIMITS = {"resources": {"limits": {"memory": "64Mi", "cpu": "250m"}}}
PODS = ("crun-hog", "crun-stays")


@pytest.fixture(scope="module")
def pods(node: Node) -> Iterator[None]:
    """A pod that needs more memory than its limit, and one that stays, on crun."""
    node.configure(handler="crun")
    node.add("crun-hog", "tail /dev/zero", restartPolicy="Never", container=LIMITS)
    node.add("crun-stays", "exec sleep 1000000", container=LIMITS)
    yield
    node.remove(*PODS)
    node.configure()


def test_container_of_crun_is_in_a_scope_of_its_pods_slice_with_its_limits(node: Node, pods: None) -> None:
    found = node.ask(wait_container, "crun-stays", "running")
    assert found["phase"] == "Running", (found, node.logs())
    node.shell(f"ps -eo args | grep {found['id']} | grep /crun")
    cgroup = node.ask(cgroup_of, found["id"])
    slices = ["kubepods.slice", f"kubepods-pod{found['uid'].replace('-', '_')}.slice"]
    assert cgroup["path"].startswith("/" + "/".join(slices) + "/") and ".scope" in cgroup["path"], cgroup
    for files in (cgroup["files"], cgroup["above"][slices[1]]):
        assert files["memory.max"] == str(64 << 20) and files["cpu.max"] == "25000 100000", cgroup


def test_memory_limit_ends_the_container_of_crun_as_oom_killed(node: Node, pods: None) -> None:
    found = node.ask(wait_container, "crun-hog", "terminated")
    assert (found["reason"], found["exit_code"], found["phase"]) == ("OOMKilled", 137, "Failed"), (found, node.logs())


def test_stats_of_a_container_of_crun_are_those_of_the_cgroup_files(node: Node, pods: None) -> None:
    check_stats(node, "crun-stays")
