"""Root file systems of containers: one overlay mount each.

Layout below the root: ``containers/ID/rootfs.json`` (written first: it keeps the layers), ``upper``, ``work``,
``rootfs``, the mount point, and ``volumes``. A removed one is moved to the trash and deleted later. ``recover`` removes
the leftovers of a crash.
"""

import asyncio
import logging
import os
import re
import stat
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import PASSING, Invalid, NotFound, Transient
from pykubelet.base.files.atomic import write_atomic
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import read_regular
from pykubelet.base.units import MIB, Bytes, Seconds
from pykubelet.criserver.directories import is_directory, set_aside_obstacle
from pykubelet.criserver.images.image_types import ImageRecord
from pykubelet.criserver.storage.layer_records import LayerMeta, RootfsMeta
from pykubelet.criserver.storage.layers import EMPTY, Layers
from pykubelet.criserver.storage.usage import UsageCounter
from pykubelet.criserver.storage.volumes import DIRECTORY as VOLUMES
from pykubelet.criserver.storage.volumes import VolumeRequest, make_volumes
from pykubelet.criserver.types import UserNamespace
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.fsusage import TreeUsage
from pykubelet.linux.filesystems.idmap import mount_mapped
from pykubelet.linux.filesystems.mountinfo import is_mount_point
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.linux.filesystems.overlay import mount_overlay

_log = logging.getLogger(__name__)
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_META = "rootfs.json"
_LONGEST_META = 1 * MIB
_STALL: Seconds = 120.0
"""Time without any copied data after which a copy of the content of an image's volumes is given up."""
_decoder = msgspec.json.Decoder(RootfsMeta)


class RootfsUsage(Struct, frozen=True):
    """The usage of a container's writable layer and of its image's volumes."""

    bytes: Bytes
    inodes: int


class Snapshots:
    """The root file systems of containers. Call ``load`` first, then ``recover``."""

    def __init__(self, root: Path, layers: Layers) -> None:
        self._directory = root / "containers"
        self._empty = layers.directory / EMPTY
        self._layers = layers
        self._trash = layers.trash
        self._counts = UsageCounter()
        self._retained: Collection[str] | None = None
        self._used: dict[str, tuple[str, ...]] = {}
        """Chain ids by container."""
        self._mounted: dict[str, tuple[int, ...]] = {}
        """The directories of their layers by container whose root file system is mounted."""
        self._unknown: set[str] = set()
        """Containers whose root file system is mounted, of unknown layers: all layers are kept for them."""
        self._leftovers: set[Path] = set()
        self._with_volumes: set[str] = set()
        """Containers with volumes of their image."""

    def load(self) -> None:
        """Read the state of the disk. Blocks; call it before all others."""
        set_aside_obstacle(self._directory, directory=True)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._layers.load()
        self._layers.keep_mounted(self._mounted_layers)
        for place in self._directory.iterdir():
            if _ID.fullmatch(place.name):
                found = _read_meta(place)
                self._used[place.name] = found.chain_ids if found is not None else ()
                if _may_be_mounted(place / "rootfs"):
                    self._note_mounted(place.name, found)
                if is_directory(place / VOLUMES):
                    self._with_volumes.add(place.name)
            else:
                self._leftovers.add(place)

    def _note_mounted(self, container_id: str, found: RootfsMeta | None) -> None:
        if found is None:
            self._unknown.add(container_id)
            _log.warning(
                "record of a root file system unreadable: keeping all layers until the container is removed",
                extra={"container": container_id},
            )
        elif found.directories:
            self._mounted[container_id] = found.directories

    def _mounted_layers(self) -> Collection[int] | None:
        """The directories of the layers of mounted root file systems; None if not all of them are known."""
        if self._unknown:
            return None
        return {number for numbers in self._mounted.values() for number in numbers}

    def leftovers(self) -> tuple[Path, ...]:
        """The paths whose names cannot be those of containers."""
        return tuple(self._leftovers)

    async def remove_leftover(self, place: Path) -> None:
        """Remove a leftover. Idempotent."""
        await blocking.call_to_end("rootfs/leftover", self._discard, place, at_once=1)
        self._trash.wake()
        self._leftovers.discard(place)

    async def prepare_rootfs(
        self, image: ImageRecord, container_id: str, user: UserNamespace | None = None, label: str = ""
    ) -> Path:
        """Mount a root file system of the image for a container and return its path. Idempotent.

        Missing layers are unpacked. With a user namespace the files belong to the ids of that namespace. ``label`` is
        the SELinux label of all files. Raises Invalid
        if a layer is bad or the disk's file system does not support id-mapped mounts, and Transient for problems of the
        machine (disk full, for example).
        """
        place = self._place(container_id)
        async with self._layers.pinned(image.layers):
            metas = [await self._layers.ensure(image.stack[: count + 1]) for count in range(len(image.stack))]
            self._used[container_id] = image.layers
            self._mounted[container_id] = tuple(meta.directory for meta in metas)
            mount = partial(self._mount, place, image, metas, user, label)
            if await blocking.call_to_end(f"rootfs/{container_id}", mount, at_once=1):
                self._trash.wake()
        return place / "rootfs"

    async def make_volumes(self, container_id: str, request: VolumeRequest) -> dict[str, str]:
        """Create the volumes that its image declares; return their directories on the host by path in the container.

        The root file system is prepared, and no process uses it. They are removed with it. Errors as of
        ``volumes.make_volumes``; Transient if nothing is copied for a while. A removal waits for the end of the copy.
        """
        place = self._place(container_id)
        self._with_volumes.add(container_id)
        # No deadline fits: large volumes take minutes. A retry would begin again.
        return await blocking.call_stoppable(
            f"rootfs/{container_id}", partial(make_volumes, place, request), stall=_STALL, at_once=1
        )

    async def remove_rootfs(self, container_id: str) -> None:
        """Unmount a container's root file system and move its writable layer to the trash. Idempotent.

        Takes the same time whatever the container has written. Transient: it is busy.
        """
        place = self._place(container_id)
        await blocking.call_to_end(f"rootfs/{container_id}", self._discard, place, at_once=1)
        self._trash.wake()
        self._counts.forget(container_id)
        self._counts.forget(f"{container_id}/{VOLUMES}")
        self._with_volumes.discard(container_id)
        chain_ids, kept = self._used.pop(container_id, ()), self._layers.leftovers()
        self._mounted.pop(container_id, None)
        was_unknown = container_id in self._unknown
        self._unknown.discard(container_id)
        if self._retained is not None and (was_unknown or not set(chain_ids) <= set(self._retained)):
            await self._prune()
        elif self._layers.leftovers() != kept:
            await self._layers.clean()

    async def recover(self, wanted: Collection[str]) -> frozenset[str]:
        """Remove the root file systems of containers that are not wanted; returns the containers with mounted ones.

        After a reboot none is mounted; the writable layers are kept until the containers are removed.
        """
        for container_id in [found for found in self._used if found not in wanted]:
            try:
                await self.remove_rootfs(container_id)
            except Transient as error:
                _log.warning(
                    "cannot remove leftover root file system", extra={"container": container_id, "error": str(error)}
                )
        mounted = await blocking.call(
            "rootfs", lambda: [found for found in self._used if is_mount_point(self._directory / found / "rootfs")]
        )
        return frozenset(mounted)

    async def retain(self, chain_ids: Collection[str]) -> None:
        """Keep these layers and those of containers; remove the others, now and whenever a container is removed."""
        self._retained = frozenset(chain_ids)
        await self._prune()

    def unused_bytes(self, chain_ids: Collection[str]) -> Bytes:
        """The bytes of those of these layers that no container uses."""
        metas = (self._layers.get(chain_id) for chain_id in set(chain_ids) - self._in_use())
        return Bytes(sum(meta.bytes for meta in metas if meta is not None))

    def containers(self) -> tuple[str, ...]:
        """The containers that have a root file system."""
        return tuple(self._used)

    async def usage(self, container_id: str) -> RootfsUsage | None:
        """The usage of a container's writable layer and volumes, as far as it is counted; None if nothing is yet.

        Raises NotFound if the container has no root file system.
        """
        place = self._place(container_id)
        counts = [self._counts.of(container_id, str(place / "upper"))]
        if container_id in self._with_volumes:
            counts.append(self._volume_usage(container_id, place))
        known = [each for each in await asyncio.gather(*counts) if each is not None]
        if not known:
            return None
        return RootfsUsage(Bytes(sum(each.bytes for each in known)), sum(each.inodes for each in known))

    async def _volume_usage(self, container_id: str, place: Path) -> TreeUsage | None:
        try:
            return await self._counts.of(f"{container_id}/{VOLUMES}", str(place / VOLUMES))
        except NotFound:
            return None  # all of its volumes are covered by mounts

    async def make_room(self, *, always: bool = False) -> None:
        """If space is short, or ``always``, wait a limited time until what was removed is deleted."""
        await self._trash.make_room(always=always)

    def _in_use(self) -> set[str]:
        return {chain_id for chain_ids in self._used.values() for chain_id in chain_ids}

    async def _prune(self) -> None:
        assert self._retained is not None
        if not self._unknown:
            await self._layers.prune(self._in_use() | set(self._retained))

    def _place(self, container_id: str) -> Path:
        if not _ID.fullmatch(container_id):
            raise Invalid(f"{container_id!r} cannot be the name of a container's directory")
        return self._directory / container_id

    def _mount(
        self, place: Path, image: ImageRecord, metas: Sequence[LayerMeta], user: UserNamespace | None, label: str
    ) -> bool:
        """Mount the root file system; returns whether leftovers were moved to the trash. Blocks."""
        target = place / "rootfs"
        known = _read_meta(place)
        if known is not None and known.chain_ids == image.layers and is_mount_point(target):
            return False
        discarded = self._discard(place)
        try:
            place.mkdir(mode=0o700)
            numbers = tuple(meta.directory for meta in metas)
            write_atomic(place / _META, msgspec.json.encode(RootfsMeta(image.id, image.layers, numbers)))
            for directory in (place / "work", target):
                directory.mkdir(mode=0o700)
            self._make_upper(place / "upper", metas, user)
            if user is not None:
                # Only the root user of the namespace may enter: the OCI runtime resolves the path with its rights.
                os.chown(place, 0, user.ids.gid)
                place.chmod(0o710)
        except OSError as error:
            raise wrap(error, f"cannot make a root file system in {place}") from error
        lowers = [str(meta.directory) for meta in reversed(metas)] or [self._empty.name]
        directories = str(place / "upper"), str(place / "work"), str(target)
        if user is None:
            mount_overlay(str(self._layers.directory), lowers, *directories, volatile=True, label=label)
            return discarded
        mapped = place / "mapped"
        try:
            names = self._map_layers(mapped, lowers, user)
            mount_overlay(str(mapped), names, *directories, volatile=True, label=label)
        finally:
            # The overlay keeps its own clones of these mounts.
            _drop_mapped(mapped)
        return discarded

    def _map_layers(self, mapped: Path, lowers: Sequence[str], user: UserNamespace) -> list[str]:
        mapped.mkdir(mode=0o700)
        for number, lower in enumerate(lowers):
            (mapped / str(number)).mkdir(mode=0o700)
            mount_mapped(str(self._layers.directory / lower), str(mapped / str(number)), user.path)
        return [str(number) for number in range(len(lowers))]

    def _make_upper(self, upper: Path, metas: Sequence[LayerMeta], user: UserNamespace | None) -> None:
        """Create the writable directory with the owner and mode of ``/`` from the topmost layer that specifies them."""
        upper.mkdir(mode=0o755)
        upper.chmod(0o755)
        first = (0, 0) if user is None else (user.ids.uid, user.ids.gid)
        os.chown(upper, *first)
        for meta in reversed(metas):
            if meta.has_root:
                facts = (self._layers.directory / str(meta.directory)).stat()
                os.chown(upper, first[0] + facts.st_uid, first[1] + facts.st_gid)
                upper.chmod(stat.S_IMODE(facts.st_mode))
                return

    def _discard(self, place: Path) -> bool:
        """Unmount what is in a container's directory, and move it to the trash; returns whether there was anything."""
        with suppress(NotFound):
            unmount_all_under(str(place / "rootfs"), lazy=True)
        # A crash may have left layers mounted here; they must not be removed with the directory.
        _drop_mapped(place / "mapped")
        return self._trash.take(place)


def writable_layer(root_filesystems: Path, container_id: str) -> Path:
    """The directory of what a container has changed in its root file system, as overlayfs writes it."""
    return root_filesystems / container_id / "upper"


def _drop_mapped(mapped: Path) -> None:
    if not mapped.is_dir():
        return
    with suppress(NotFound):
        unmount_all_under(str(mapped), lazy=True)
    for directory in mapped.iterdir():
        directory.rmdir()
    mapped.rmdir()


def _may_be_mounted(rootfs: Path) -> bool:
    """Whether a root file system is mounted, or cannot be looked at for the moment."""
    try:
        return read_again(partial(is_mount_point, rootfs))
    except OSError as error:  # such as a loop of links in the place of the directory
        return error.errno in PASSING


def _read_meta(place: Path) -> RootfsMeta | None:
    """Read the record of a root file system; None if it is missing, damaged or cannot be read."""
    try:
        return _decoder.decode(read_again(partial(read_regular, place / _META, _LONGEST_META)))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
