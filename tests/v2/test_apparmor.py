"""AppArmor with a kernel that has it: the default profile, one of the node, and none."""

from typing import Any

import pytest

from tests.v2.guest import wait_running
from tests.v2.node import Node
from tools.v2.project import BUSYBOX

pytestmark = [pytest.mark.root, pytest.mark.timeout(3600)]
LOCAL = "v2-local"
PROFILE = f"profile {LOCAL} flags=(attach_disconnected,mediate_deleted) {{ file, signal, deny /tmp/denied w, }}\n"
TRIES = "mkdir -p /tmp; echo x > /tmp/denied && echo tmp; exec sleep 1000000"
"""Writes a file that only the profile of the node denies."""
KINDS = {
    "default": {},
    "local": {"appArmorProfile": {"type": "Localhost", "localhostProfile": LOCAL}},
    "unconfined": {"appArmorProfile": {"type": "Unconfined"}},
}


@pytest.fixture(scope="module")
def confined(node: Node) -> Any:
    """A pod with a container for each kind of profile, which runs; what it has printed, by container."""
    node.machine.write("/var/tmp/local.profile", PROFILE)
    node.shell("apparmor_parser --replace --skip-cache /var/tmp/local.profile")
    containers = [
        {"name": name, "image": BUSYBOX, "command": ["/bin/sh", "-c", TRIES], "securityContext": context}
        for name, context in KINDS.items()
    ]
    node.add("confined", "", containers=containers)
    found = node.ask(wait_running, "confined")
    assert set(found) == {"confined"}, node.logs()
    yield found["confined"]["containers"]
    node.remove("confined")
    node.shell("apparmor_parser --remove /var/tmp/local.profile")


@pytest.mark.parametrize(
    ("name", "profile"),
    [("default", "pykubelet-default (enforce)"), ("local", f"{LOCAL} (enforce)"), ("unconfined", "unconfined")],
)
def test_container_runs_under_its_profile(node: Node, confined: dict[str, Any], name: str, profile: str) -> None:
    assert node.shell(f"cat /proc/{confined[name]['pid']}/attr/current").out.strip() == profile


def test_profile_of_the_node_forbids_what_the_others_allow(node: Node, confined: dict[str, Any]) -> None:
    said = {name: node.pykubelet(f"logs confined {name}").out.splitlines() for name in KINDS}
    assert {name: "tmp" in lines for name, lines in said.items()} == {
        "default": True,
        "local": False,
        "unconfined": True,
    }, said
