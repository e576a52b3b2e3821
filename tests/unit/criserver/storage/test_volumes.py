"""Volumes that an image declares: copies of the image's content, which are released with the root file system."""

import asyncio
import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Conflict, Invalid, NotFound, Transient
from pykubelet.criserver.storage import VolumeRequest, snapshots, volumes
from pykubelet.criserver.storage.copy_tree import copy_tree
from pykubelet.criserver.storage.plan.volumes import is_covered, volumes_to_make
from pykubelet.criserver.storage.volumes import make_volumes
from pykubelet.linux.filesystems.mounts import mount, unmount
from pykubelet.testing.wait import until, until_answer
from tests.unit.criserver.storage.world import World, directory, entry, hard, link, tar

root_only = pytest.mark.root


def request(*declared: str, covered: tuple[str, ...] = ()) -> VolumeRequest:
    return VolumeRequest(declared, frozenset(covered))


@pytest.mark.parametrize(
    ("declared", "covered", "made"),
    [
        (("/data", "/data/", "data", "//data/."), (), ("/data",)),
        (("/",), (), ()),
        (("/../../etc/x",), (), ("/etc/x",)),
        (("/data", "/data/db", "/database"), ("/data",), ("/database",)),
        (("/data",), ("/data/db",), ("/data",)),
        (("/proc/x", "/processes"), ("/proc",), ("/processes",)),
        (("/data",), ("/",), ()),
    ],
)
def test_volumes_to_make_are_normal_paths_that_no_mount_covers(
    declared: tuple[str, ...], covered: tuple[str, ...], made: tuple[str, ...]
) -> None:
    assert volumes_to_make(declared, covered) == made
    assert not any(is_covered(path, covered) for path in made)


@root_only
async def test_volume_has_the_content_of_the_image(tmp_path: Path) -> None:
    world = World(tmp_path)
    sparse = bytes(1 << 20) + b"end"
    world.add(
        tar(
            [
                directory("data", 0o1770),
                entry("data/file", data=b"content", uid=7, gid=8, mode=0o4750, mtime=1_000_000_000),
                hard("data/same", "data/file"),
                link("data/away", str(world.outside)),
                directory("data/deep"),
                entry("data/deep/below", data=sparse),
                entry("data/fifo", b"6"),
            ]
        )
    )
    root = await world.mount()
    os.setxattr(root / "data/deep/below", "user.note", b"kept")
    os.chown(root / "data", 11, 12)
    made = await world.snapshots.make_volumes("c", request("/data", "/new/one"))
    assert set(made) == {"/data", "/new/one"}
    data, new = Path(made["/data"]), Path(made["/new/one"])
    facts = data.stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid) == (0o1770, 11, 12)
    facts = (data / "file").stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid, facts.st_nlink) == (0o4750, 7, 8, 2)
    assert facts.st_mtime == 1_000_000_000 and facts.st_ino == (data / "same").stat().st_ino
    assert (data / "file").read_bytes() == b"content" and os.getxattr(data / "deep/below", "user.note") == b"kept"
    assert (data / "away").readlink() == world.outside
    assert stat.S_ISFIFO((data / "fifo").stat().st_mode)
    assert (data / "deep/below").read_bytes() == sparse
    assert stat.S_IMODE(new.stat().st_mode) == 0o755 and list(new.iterdir()) == []
    (data / "file").write_bytes(b"changed")
    assert (root / "data/file").read_bytes() == b"content", "the volume is no part of the root file system"
    await world.snapshots.remove_rootfs("c")
    assert not root.parent.exists()
    world.assert_unharmed()


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[Path]:
    """A directory for trees that are deeper than Python's stack, which pytest could not remove."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


@root_only
async def test_holes_and_deep_trees_are_copied(emptied: Path) -> None:
    source, target = emptied / "source", emptied / "target"
    source.mkdir()
    target.mkdir()
    with (source / "disk").open("wb") as file:
        file.seek(64 << 20)
        file.write(b"x")
        file.truncate(128 << 20)
    here = os.open(source, os.O_RDONLY)
    for _ in range(1500):  # a path longer than PATH_MAX
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("end", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    fds = [os.open(each, os.O_RDONLY) for each in (source, target)]
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    copy_tree(*fds)
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208
    assert (target / "disk").stat().st_size == 128 << 20 and (target / "disk").stat().st_blocks * 512 < 1 << 20
    depth = 0
    while True:
        try:
            below = os.open("deep", os.O_RDONLY, dir_fd=fds[1])
        except FileNotFoundError:
            break
        os.close(fds[1])
        fds[1], depth = below, depth + 1
    assert depth == 1500 and os.stat("end", dir_fd=fds[1])
    for fd in fds:
        os.close(fd)


@root_only
async def test_hostile_links_lead_nowhere_and_nested_volumes_are_copied_once(tmp_path: Path) -> None:
    """CVE-2022-23648: the path of a volume leads through links of the image."""
    world = World(tmp_path)
    world.add(
        tar(
            [
                link("out", str(tmp_path)),
                link("up", "../../../../../.."),
                link("alias", "real/inner"),
                directory("real"),
                entry("real/outer", data=b"o"),
                directory("real/inner"),
                entry("real/inner/file", data=b"i"),
                entry("plain", data=b"a file"),
            ]
        )
    )
    root = await world.mount()
    made = await world.snapshots.make_volumes("c", request("/out/storage", "/up/real", "/alias", "/real/inner"))
    assert set(made) == {f"{tmp_path}/storage", "/real", "/real/inner"}
    assert list(Path(made[f"{tmp_path}/storage"]).iterdir()) == []
    assert sorted(path.name for path in Path(made["/real"]).iterdir()) == ["inner", "outer"]
    assert list((Path(made["/real"]) / "inner").iterdir()) == [], "hidden by the volume that is mounted there"
    assert [path.name for path in Path(made["/real/inner"]).iterdir()] == ["file"]
    world.assert_unharmed()
    await world.snapshots.remove_rootfs("c")
    await world.mount()
    for path in ("/plain", "/plain/below"):
        with pytest.raises((Conflict, Invalid), match="plain"):
            await world.snapshots.make_volumes("c", request(path))
    assert await world.snapshots.make_volumes("c", request("/alias", covered=("/real",))) == {}
    await world.snapshots.remove_rootfs("c")
    assert not root.parent.exists()


@root_only
async def test_volumes_count_as_usage_also_after_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.add(tar([directory("data"), entry("data/big", data=os.urandom(1 << 20))]))
    await world.mount()
    before = await world.snapshots.usage("c")
    assert before is not None and before.bytes < 1 << 20
    await world.snapshots.make_volumes("c", request("/data"))

    async def counted() -> bool:
        usage = await world.snapshots.usage("c")
        return usage is not None and usage.bytes >= 1 << 20 and usage.inodes >= before.inodes + 3

    await until_answer(counted)
    world.snapshots.load()
    await until_answer(counted)
    await world.snapshots.remove_rootfs("c")
    with pytest.raises(NotFound):
        await world.snapshots.usage("c")


@root_only
async def test_full_disk_is_an_error_that_names_the_volume(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount("tmpfs", str(small), "tmpfs", data="size=6m")
    try:
        world = World(small)
        world.add(tar([directory("data"), entry("data/a", data=os.urandom(1500 << 10))]))
        root = await world.mount()
        (small / "ballast").write_bytes(bytes(2 << 20))
        with pytest.raises(Transient, match=r"cannot copy volume /data of the image.*No space left on device"):
            await world.snapshots.make_volumes("c", request("/data"))
        await world.snapshots.remove_rootfs("c")
        assert not root.parent.exists()
    finally:
        unmount(str(small), lazy=True)


@root_only
async def test_removal_waits_until_a_running_copy_has_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.add(tar([directory("data")]))
    place = (await world.mount()).parent
    begun, found = threading.Event(), []

    def copy(*_: object, stopped: Callable[[], bool], **__: object) -> None:
        begun.set()
        while not stopped():
            time.sleep(0)
        found.append(place.exists())
        raise Transient("stopped")

    monkeypatch.setattr(volumes, "copy_tree", copy)
    making = asyncio.create_task(world.snapshots.make_volumes("c", request("/data")))
    await until(begun.is_set)
    removal = asyncio.create_task(world.snapshots.remove_rootfs("c"))
    for _ in range(20):  # an overtaking removal would be done
        await blocking.call("other", int)
    making.cancel()
    await removal
    assert found == [True] and not place.exists()
    with pytest.raises(asyncio.CancelledError):
        await making


@root_only
async def test_copy_that_stalls_is_stopped_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.add(tar([directory("data")]))
    place = (await world.mount()).parent
    found = []

    def copy(*_: object, stopped: Callable[[], bool], **__: object) -> None:
        while not any(each.owner == "rootfs/c" for each in blocking.hung()):
            time.sleep(0)
        while not stopped():
            time.sleep(0)
        found.append(place.exists())
        raise Transient("stopped")

    monkeypatch.setattr(volumes, "copy_tree", copy)
    monkeypatch.setattr(snapshots, "_STALL", 0.1)
    with pytest.raises(Transient, match=r"make_volumes for rootfs/c has made no progress for 0\.1 s"):
        await world.snapshots.make_volumes("c", request("/data"))
    assert found == [True]
    await world.snapshots.remove_rootfs("c")
    assert not place.exists()


def test_volume_whose_path_cannot_be_mounted_is_invalid(tmp_path: Path) -> None:
    root = tmp_path / "rootfs"
    root.mkdir()
    (root / os.fsdecode(b"\xff")).mkdir()
    (root / "link").symlink_to(os.fsdecode(b"/\xff"))
    for path, message in (
        ("/link/data", r"volume /link/data of the image has a path that is not UTF-8: /\\xff/data"),
        ("/a\ud800", r"volume /a\\ud800 of the image has a path that is not UTF-8"),
        ("/" + "/".join(["d" * 200] * 30), r"directory of volume /ddd.* of the image: File name too long"),
    ):
        with pytest.raises(Invalid, match=message):
            make_volumes(tmp_path, request(path), lambda: False)


@root_only
def test_disk_that_is_full_before_the_first_volume_is_an_error_of_the_machine(tmp_path: Path) -> None:
    mount("tmpfs", str(tmp_path), "tmpfs", data="nr_inodes=4")
    try:
        (tmp_path / "rootfs/data").mkdir(parents=True)
        for files in (1, 0):
            if files:
                (tmp_path / "ballast").touch()
            with pytest.raises(Transient, match="No space left on device"):
                make_volumes(tmp_path, request("/data", "/new"), lambda: False)
            (tmp_path / "ballast").unlink(missing_ok=True)
    finally:
        unmount(str(tmp_path), lazy=True)


def test_volumes_below_others_are_found(tmp_path: Path) -> None:
    paths = ("/a", "/a-b", "/a/c", "/a/c/d", "/a0", "/ab")
    for path in paths:
        (tmp_path / f"rootfs{path}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"rootfs{path}/file").write_text(path)
    made = make_volumes(tmp_path, request(*paths), lambda: False)
    files = {path: sorted(str(each.relative_to(host)) for each in Path(host).rglob("*")) for path, host in made.items()}
    assert files == {
        "/a": ["c", "file"],
        "/a-b": ["file"],
        "/a/c": ["d", "file"],
        "/a/c/d": ["file"],
        "/a0": ["file"],
        "/ab": ["file"],
    }
