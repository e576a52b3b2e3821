"""Files that `reset` removes: containers may have written them."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pykubelet.base.errors import Conflict, NotFound
from pykubelet.cli.client.agent_socket import linked
from pykubelet.cli.reset.daemons import PodsPart
from pykubelet.cli.reset.files import CgroupsPart, FilesPart
from pykubelet.cli.reset.network import NamespacesPart
from pykubelet.cli.reset.places import Places
from pykubelet.criserver.config import Settings
from pykubelet.criserver.netns import NamespaceKind, NamespaceSpec, PinnedNamespaces
from pykubelet.criserver.types import SandboxID
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.resources.cgroup_names import NameStyle, pod_name, root_name, to_path
from pykubelet.kubelet.types.resources.qos import QosClass
from pykubelet.linux.cgroups.files import CgroupFiles
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.pb import runtime_v1_pb2 as pb

_DEPTH = 3000
"""More than Python's limit of recursion, and than the usual limit of descriptors."""


def _write_deep_tree(top: Path) -> None:
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(_DEPTH):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def _places(tmp_path: Path) -> Places:
    return Places(
        root=tmp_path / "root",
        run=tmp_path / "run",
        pod_logs=tmp_path / "logs",
        container_logs=tmp_path / "links",
        cgroup_root="",
        endpoint="unix:///other.sock",
        server=Settings(),
        server_file=None,
        keep_images=False,
    )


def test_pod_with_a_former_sandbox_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pods(_: PodsPart) -> list[pb.PodSandbox]:
        named = [
            pb.PodSandboxMetadata(namespace="default", name=name, attempt=number) for name in "ab" for number in (0, 1)
        ]
        return [pb.PodSandbox(metadata=each) for each in named]

    monkeypatch.setattr(PodsPart, "_pods", pods)
    assert PodsPart(_places(tmp_path), lambda *_: None).find() == ["pod: default/a", "pod: default/b"]


def test_tree_deeper_than_the_limit_of_recursion_is_removed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "pods").mkdir(parents=True)
    outside.mkdir()
    (outside / "file").touch()
    _write_deep_tree(root / "pods/volume")
    (root / "pods/link").symlink_to(outside)
    FilesPart(_places(tmp_path)).remove()
    assert not root.exists()
    assert (outside / "file").exists()


class _Slices:
    """`Units` of a systemd that knows some slices; stopping one stops those below it."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    def stop(self, name: str) -> None:
        if name not in self.names:
            raise NotFound(f"unit {name} not loaded")
        below = name.removesuffix(".slice") + "-"
        self.names -= {each for each in self.names if each == name or each.startswith(below)}

    def start_transient(self, name: str, properties: object) -> None:
        raise AssertionError("a reset starts nothing")

    def set_properties(self, name: str, properties: object) -> None:
        raise AssertionError("a reset changes nothing")


@pytest.mark.parametrize("root", ["/", "/a-b/c"])
@pytest.mark.parametrize("driver", list(NameStyle))
def test_cgroups_of_both_drivers_are_removed_with_their_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, driver: NameStyle
) -> None:
    monkeypatch.setattr(CgroupsPart, "_hierarchies", staticmethod(lambda: {tmp_path}))
    path = to_path((*root_name(root), "burstable"), driver)
    (tmp_path / path.lstrip("/")).mkdir(parents=True)
    *_, top, last = path.split("/")
    slices = _Slices("others.slice", *((top, last) if driver is NameStyle.SYSTEMD else ()))
    part = CgroupsPart(replace(_places(tmp_path), cgroup_root=root), slices)
    assert [line.rpartition("/")[2] for line in part.find()] == [top]
    part.remove()
    assert (list(part.find()), slices.names) == ([], {"others.slice"})


@pytest.mark.parametrize("driver", list(NameStyle))
@pytest.mark.parametrize("qos", list(QosClass))
def test_cgroups_of_another_kubelets_pods_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: NameStyle, qos: QosClass
) -> None:
    monkeypatch.setattr(CgroupsPart, "_hierarchies", staticmethod(lambda: {tmp_path}))
    killed: list[Path] = []
    monkeypatch.setattr(CgroupFiles, "delete_trees", lambda _, roots: killed.extend(roots))
    part = CgroupsPart(replace(_places(tmp_path), cgroup_root="/"), _Slices())
    for uid in ("our-s", "their-s"):
        container = tmp_path / to_path(pod_name(root_name("/"), qos, PodUID(uid)), driver).lstrip("/") / "container"
        container.mkdir(parents=True)
        (container / "cgroup.procs").write_text("4194305\n")
    (tmp_path / "root/pods/our-s").mkdir(parents=True)
    with pytest.raises(Conflict, match=r"not of this agent have processes: their-s; "):
        part.remove()
    assert killed == []
    (container / "cgroup.procs").write_text("")
    part.remove()
    assert set(killed) == {tmp_path / ("kubepods.slice" if driver is NameStyle.SYSTEMD else "kubepods")}


def test_link_to_the_socket_of_a_killed_agent_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links, run = tmp_path / "agents", tmp_path / "run"
    monkeypatch.setenv("PYKUBELET_AGENTS_DIR", str(links))
    with linked(run / "agent.sock"):
        link = next(links.iterdir()).name
    links.mkdir()
    (links / link).symlink_to(run / "agent.sock")
    part = FilesPart(_places(tmp_path))
    assert part.find() == [f"file: {links / link}"]
    (links / "other").symlink_to("/other.sock")
    part.remove()
    assert [path.name for path in links.iterdir()] == ["other"]
    (links / "other").unlink()
    part.remove()
    assert not links.exists()


@pytest.mark.root
async def test_network_namespaces_of_a_server_that_was_killed_are_removed_and_those_of_others_are_not(
    tmp_path: Path,
) -> None:
    server = Settings(run=tmp_path / "run", netns_dir=tmp_path / "netns")
    namespaces = PinnedNamespaces.open(directory=server.namespaces, shared=server.network_namespaces)
    sandbox, spec = SandboxID("pod"), NamespaceSpec((NamespaceKind.NETWORK,))
    await namespaces.make(sandbox, spec)
    theirs = PinnedNamespaces.open(directory=tmp_path / "theirs", shared=server.network_namespaces)
    other = SandboxID("other")
    await theirs.make(other, spec)
    part = NamespacesPart(replace(_places(tmp_path), endpoint="", server=server))
    try:
        assert part.find() == [f"network namespace: {tmp_path}/netns/cni-pod"]
        part.remove()
        assert part.find() == []
        assert [path.name for path in (tmp_path / "netns").iterdir()] == ["cni-other"]
    finally:
        unmount_all_under(str(tmp_path), lazy=True)
