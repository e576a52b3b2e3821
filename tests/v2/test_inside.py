"""Suites that run inside the machine: the CRI contract with both OCI runtimes, limits and evictions on cgroup v2.

They use the cgroupfs driver, beside the installed units, except for one run of the contract on the installed server.
"""

import re
from collections.abc import Callable

import pytest

from tests.v2.node import Node
from tools.v2.image import PROJECT_DIRECTORY
from tools.v2.project import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.timeout(7200)]
SECONDS = 7000.0
SERVER = "unix:///run/pykubelet/criserver/criserver.sock"
SLICE = "v2contract.slice"
BY_DRIVER = ("confinement", "sandboxes")
PATIENCE = 20
"""Factor on the suites' time limits."""


def run(node: Node, tests: str, oci: str = "runc", **more: str) -> str:
    """Run tests with pytest in the machine; its last lines. ``more``: further environment variables."""
    given = {"PYKUBELET_TEST_PATIENCE": str(PATIENCE), "PYKUBELET_TEST_OCI": oci, "HOME": "/root", **more}
    variables = " ".join(f"{name}={value}" for name, value in given.items())
    flags = "-q --no-header -p no:cacheprovider --basetemp=/var/tmp/inside --runtime=criserver"
    # The console shows how far they are.
    pytests = f"{variables} .venv/bin/python -m pytest {flags} {tests} 2>&1"
    command = f"cd {PROJECT_DIRECTORY} && {pytests} | tee /dev/console | tail -n 60"
    done = node.machine.run(command, SECONDS)
    assert " passed" in done.out and " failed" not in done.out and " error" not in done.out, done.out
    assert "no test was skipped" in done.out, done.out
    return done.out


@pytest.mark.parametrize("oci", ["runc", "crun"])
def test_cri_contract_holds(node: Node, oci: str) -> None:
    run(node, "tests/integration/test_cri_contract.py", oci)


def test_cri_contract_of_pods_and_limits_holds_on_the_installed_server_with_the_systemd_driver(node: Node) -> None:
    node.configure()
    # The agent would end pods that it does not know.
    node.shell("systemctl stop pykubelet.service")
    try:
        variables = {
            "PYKUBELET_TEST_CRI_ENDPOINT": SERVER,
            "PYKUBELET_TEST_IMAGE": BUSYBOX,
            "PYKUBELET_TEST_CGROUP_PARENT": SLICE,
        }
        # What depends on the driver; the whole contract takes a quarter of an hour.
        run(node, "-k real " + " ".join(f"tests/contract/cri/test_{each}.py" for each in BY_DRIVER), **variables)
        # systemd tells of each slice that it makes for pods.
        node.shell(f"journalctl --no-pager -b -u {SLICE} | grep 'Created slice'")
    finally:
        node.shell("systemctl start pykubelet.service")


def test_limits_are_in_the_control_files(node: Node) -> None:
    run(node, "tests/integration/test_resources.py")


def test_memory_hog_is_evicted_before_the_periodic_look(node: Node, record_property: Callable[..., None]) -> None:
    available = int(node.shell("awk '/MemAvailable/ {print $2}' /proc/meminfo").out)
    if available < 5200 << 10:
        pytest.skip("the host has too little memory for a machine with 6 GiB")
    # Without capturing, the test tells how long each eviction took.
    said = run(node, "-s tests/integration/test_pressure.py -k 'memory'")
    record_property("selected after", re.findall(r"hog-\d was selected ([\d.]+ s) after memory was short", said))


def test_pod_is_evicted_when_all_pods_use_what_is_theirs(node: Node) -> None:
    run(node, "tests/integration/test_pressure.py -k 'all_pods_together or fills_its_volume'")
