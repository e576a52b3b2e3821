"""Network namespaces are pinned where the agents of CNI plugins find them, and are found again by a later server."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from pykubelet.criserver.netns import NamespaceKind, NamespaceSpec
from pykubelet.criserver.types import SandboxID
from pykubelet.linux.filesystems.mountinfo import is_mount_point
from pykubelet.linux.namespaces import Namespace, pin_new
from tests.unit.criserver.netns.pinned import assert_nothing_mounted, opened

pytestmark = pytest.mark.root
POD = SandboxID("pod")
SPEC = NamespaceSpec((NamespaceKind.NETWORK, NamespaceKind.UTS), "inside")


async def test_network_namespaces_are_in_the_shared_directory_and_others_are_not(tmp_path: Path) -> None:
    namespaces = opened(tmp_path)
    await namespaces.make(POD, SPEC)
    assert namespaces.path(POD, NamespaceKind.NETWORK) == tmp_path / "netns" / "cni-pod"
    assert namespaces.path(POD, NamespaceKind.UTS) == tmp_path / "ns" / "pod" / "uts"
    assert all(is_mount_point(namespaces.path(POD, kind)) for kind in SPEC.kinds)
    await namespaces.release(POD)
    assert (list((tmp_path / "ns").iterdir()), list((tmp_path / "netns").iterdir())) == ([], [])
    assert_nothing_mounted(tmp_path)


async def test_a_server_with_another_shared_directory_finds_and_releases_what_there_is(tmp_path: Path) -> None:
    await opened(tmp_path, "before").make(POD, SPEC)
    later = opened(tmp_path)
    assert later.known() == [POD]
    assert later.path(POD, NamespaceKind.NETWORK) == tmp_path / "before" / "cni-pod"
    other = SandboxID("other")
    await later.make(other, SPEC)
    assert later.path(other, NamespaceKind.NETWORK).parent == tmp_path / "netns"
    for sandbox in (POD, other):
        await later.release(sandbox)
    assert later.known() == []
    assert list((tmp_path / "before").iterdir()) == []
    assert_nothing_mounted(tmp_path, "before")


async def test_namespaces_of_servers_without_a_shared_directory_are_found_and_released(tmp_path: Path) -> None:
    own = tmp_path / "ns" / POD
    own.mkdir(parents=True)
    pin_new({Namespace.NET: str(own / "net"), Namespace.UTS: str(own / "uts")})
    namespaces = opened(tmp_path)
    assert namespaces.path(POD, NamespaceKind.NETWORK) == own / "net"
    await namespaces.release(POD)
    assert namespaces.known() == []
    assert_nothing_mounted(tmp_path)


async def test_a_creation_that_ended_before_the_namespace_was_pinned_is_undone(tmp_path: Path) -> None:
    own = tmp_path / "ns" / POD
    own.mkdir(parents=True)
    (own / "net").symlink_to(tmp_path / "netns" / "cni-pod")
    namespaces = opened(tmp_path)
    assert namespaces.known() == [POD]
    await namespaces.release(POD)
    assert namespaces.known() == []


async def test_the_shared_directory_keeps_what_others_pin_there(tmp_path: Path) -> None:
    (tmp_path / "netns").mkdir()
    theirs = tmp_path / "netns" / "theirs"
    pin_new({Namespace.NET: str(theirs)})
    namespaces = opened(tmp_path)
    await namespaces.make(POD, SPEC)
    await namespaces.release(POD)
    assert namespaces.known() == []
    assert is_mount_point(theirs)


def test_namespaces_pinned_later_appear_in_mounts_that_pods_have_made_before(tmp_path: Path) -> None:
    """As for a pod that mounts the directory with HostToContainer propagation."""
    namespaces = opened(tmp_path)
    watch = "echo ready; read -r line; cat /proc/self/mountinfo"
    command = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", watch]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        asyncio.run(namespaces.make(POD, SPEC))
        other.stdin.write("\n")
        other.stdin.close()
        assert f" {namespaces.path(POD, NamespaceKind.NETWORK)} " in other.stdout.read()
    asyncio.run(namespaces.release(POD))
