"""fsGroup of local volumes, with real mounts: what is changed for which pod."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from pykubelet.kubelet.actuate.actuate_types import VolumeError
from pykubelet.kubelet.actuate.volumes import VolumeDeps, VolumeManager
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.linux.filesystems import mounts
from pykubelet.models.core_v1 import Pod, PodSecurityContext
from tests.unit.kubelet.actuate.volumes.build import Claims, Images, Kit, using

pytestmark = pytest.mark.root
FIRST, SECOND = 7632, 7633


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The directory of a local volume; another file system is mounted below it."""
    path = tmp_path / "disk"
    (path / "below").mkdir(parents=True)
    (path / "file").touch()
    mounts.tmpfs(str(path / "below"))
    (path / "below/file").touch()
    yield path
    mounts.unmount(str(path / "below"))


@pytest.fixture
def kit(tmp_path: Path, disk: Path) -> Iterator[Kit]:
    """A manager, with a claim ``c`` of a volume that is this directory."""
    made = Kit(tmp_path / "root")
    use_path(made, str(disk))
    yield made
    mounts.unmount_all_under(str(made.root))


def use_path(kit: Kit, path: str) -> None:
    """Begin with a new manager, for which the volume has that path."""
    claims = Claims()
    claims.specs["c"] = {"local": {"path": path}}
    deps = VolumeDeps(images=Images(), claims=claims, telemetry=kit.telemetry)
    kit.manager = VolumeManager(dirs=kit.dirs, deps=deps)


def pod(name: str, group: int) -> Pod:
    """A pod with that fsGroup that mounts the claim."""
    made = using("c")
    security = PodSecurityContext(fs_group=group)
    return replace(
        made,
        metadata=replace(made.metadata, name=name, uid=PodUID(name)),
        spec=replace(made.spec, security_context=security),
    )


def group_of(path: Path) -> int:
    return path.stat().st_gid


async def test_mounts_below_a_local_volume_are_neither_shown_nor_changed(kit: Kit, disk: Path) -> None:
    before = group_of(disk / "below")
    await kit.mount(pod("first", FIRST))
    assert (group_of(disk), group_of(disk / "file")) == (FIRST, FIRST)
    assert group_of(disk / "below") == group_of(disk / "below/file") == before
    shown = kit.dirs.of_volumes.volume(PodUID("first"), "kubernetes.io/local-volume", "pv-c")
    assert not list((shown / "below").iterdir()) and group_of(shown / "below") == FIRST


async def test_volume_of_another_pod_keeps_its_group_and_the_user_is_informed(kit: Kit, disk: Path) -> None:
    await kit.mount(pod("first", FIRST))
    await kit.mount(pod("second", SECOND))
    assert (group_of(disk), group_of(disk / "file")) == (FIRST, FIRST)
    assert kit.events.seen == [
        (
            "AlreadyMountedVolume",
            f"The requested fsGroup is {SECOND}, but the volume pv-c has GID {FIRST}. The volume may not be shareable.",
        )
    ]


async def test_pods_of_the_same_group_share_a_volume_without_a_warning(kit: Kit, disk: Path) -> None:
    await kit.mount(pod("first", FIRST))
    await kit.mount(pod("second", FIRST))
    assert kit.events.seen == []


async def test_volume_gets_the_group_of_a_later_pod_when_no_other_has_it(kit: Kit, disk: Path) -> None:
    first = pod("first", FIRST)
    await kit.mount(first)
    await kit.manager.remove(ref_of(first).uid)
    await kit.mount(pod("second", SECOND))
    assert (group_of(disk), group_of(disk / "file")) == (SECOND, SECOND)
    assert kit.events.seen == []


async def test_local_path_that_cannot_be_mounted_is_refused_by_name(kit: Kit, disk: Path) -> None:
    loops = disk / "0"
    for number in range(1500):
        (disk / str(number)).symlink_to(str(number + 1))
    for path, text in (("/a" * 5000, "spec.local.path has 10000 bytes"), (str(loops), "Too many levels of symbolic")):
        use_path(kit, path)
        with pytest.raises(VolumeError, match=text):
            await kit.mount(pod("first", FIRST))
