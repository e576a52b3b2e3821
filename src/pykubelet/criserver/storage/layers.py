"""Unpacked layers on disk. A worker process, confined to the layer's directory, unpacks each once, completely or not.

Layout below the root: ``layers/N`` (the content), ``meta/HEX.json`` (chain id → N; written last, removed first),
``merge/N`` (mounts while layer N is unpacked over the layers below it). A worker of an earlier server, which may still
write to ``layers/N``, disturbs no other layer, as numbers are not reused.
"""

import asyncio
import fcntl
import logging
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVarTuple
from weakref import WeakValueDictionary

import msgspec

from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.shield import shielded
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Transient
from pykubelet.base.files.atomic import remove_temporary_files, write_atomic
from pykubelet.base.files.retried_reads import read_again
from pykubelet.base.files.safe_path import close_quietly, open_in_root, read_regular
from pykubelet.base.units import Bytes, Seconds
from pykubelet.criserver.directories import is_directory, make_directory, set_aside_obstacle
from pykubelet.criserver.images.image_types import Layer
from pykubelet.criserver.storage.layer_records import LayerMeta
from pykubelet.criserver.storage.remove import removal_steps, remove_any
from pykubelet.criserver.storage.trash import Trash
from pykubelet.criserver.storage.unpacking import Outcome, Unpacker, lock_layer, run_blocking
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.mounts import unmount_all_under
from pykubelet.linux.filesystems.overlay import sync_filesystem
from pykubelet.linux.selinux import relabel_once
from pykubelet.linux.system import boot_id

_Ts = TypeVarTuple("_Ts")
_log = logging.getLogger(__name__)
EMPTY = "0"
"""The directory for images without layers, as overlayfs needs a lower directory."""
_GONE = ".gone"
_NUMBERED = re.compile(rf"([0-9]{{1,15}})({re.escape(_GONE)})?")
_LONGEST_RECORD = 1 << 16
_REMOVAL: Seconds = 30.0
"""Deadline for the removal of a layer, its record or its mounts; a longer one continues and is checked again later."""
_LOOK: Seconds = 0.25
"""Time for which the directories that a layer does not describe are looked for below it, of one layer at a time. After
that it is unpacked over the layers below, by a worker, as if one had been found. An image may have five million."""
_decoder = msgspec.json.Decoder(LayerMeta)


class Layers:
    """The unpacked layers. ``blob`` returns the file of a blob by its digest. Call ``load`` first.

    ``label`` is the SELinux label of their files; empty: the one that the policy gives them.
    """

    def __init__(
        self,
        *,
        root: Path,
        blob: Callable[[str], Path],
        limits: Limits | None = None,
        clock: Clock | None = None,
        label: str = "",
    ) -> None:
        self._clock = clock = clock or SystemClock()
        self.directory = root / "layers"
        self.trash = Trash(root / "trash", clock)
        self._meta = root / "meta"
        self._merge = root / "merge"
        self._unpacker = Unpacker(layers=self.directory, merge=self._merge, blob=blob, limits=limits, clock=clock)
        self._label = label
        self._known: dict[str, LayerMeta] = {}
        self._next = 1
        self._pins: Counter[str] = Counter()
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()
        """Each is held while its layer is looked for, added or removed, or unpacked from its blobs."""
        self._leftovers: set[Path] = set()
        self._mounted: Callable[[], Collection[int] | None] = tuple
        self._cleaning = Guard("layers.leftovers", clock.monotonic)
        self._pruning = Guard("layers.unwanted", clock.monotonic)

    def load(self) -> None:
        """Read the layers on the disk; damaged or unknown entries become leftovers. Blocks; call it first."""
        for directory in (self.directory, self._meta, self._merge):
            make_directory(directory)
        self.trash.load()
        set_aside_obstacle(self.directory / EMPTY, directory=True)
        (self.directory / EMPTY).mkdir(mode=0o755, exist_ok=True)
        if self._label:
            _relabel(self.directory, self._label)
        remove_temporary_files(self._meta)
        metas = {file: _read(file) for file in self._meta.iterdir()}
        directories = Counter(meta.directory for meta in metas.values() if meta is not None)
        this_boot = boot_id()
        self._known = {}
        for file, meta in metas.items():
            if meta is None or not self._is_there(meta):
                continue
            # A damaged record must not present one layer as another.
            genuine = file == self._file(meta.chain_id) and directories[meta.directory] == 1
            if genuine and (meta.synced or meta.boot == this_boot):
                self._known[meta.chain_id] = meta
        sound = {self._file(chain_id) for chain_id in self._known}
        sound |= {self.directory / EMPTY, *(self.directory / str(meta.directory) for meta in self._known.values())}
        found = {*metas, *self.directory.iterdir(), *self._merge.iterdir()}
        self._leftovers = found - sound
        numbers = (_NUMBERED.fullmatch(path.name) for path in found - metas.keys())
        self._next = 1 + max((int(match[1]) for match in numbers if match), default=0)

    def leftovers(self) -> tuple[Path, ...]:
        """The paths that belong to no layer and that no container uses. They do not disturb the layers."""
        mounted = self._mounted()
        if mounted is None:
            return tuple(path for path in self._leftovers if path.parent != self.directory)
        return tuple(self._leftovers - {self.directory / str(number) for number in mounted})

    def keep_mounted(self, mounted: Callable[[], Collection[int] | None]) -> None:
        """Keep the directories of containers: without its record one is a leftover, but their files are in it.

        ``mounted`` returns those that are in use; None: all may be.
        """
        self._mounted = mounted

    async def remove_leftover(self, path: Path) -> None:
        """Move a leftover to the trash. Idempotent. Raises Transient if it is in use, and errors of ``wrap``."""
        if path.parent == self._meta:
            chain_id = path.name.removesuffix(".json").replace("-", ":", 1)
            async with self._lock(chain_id):
                if chain_id not in self._known:  # otherwise a valid record has replaced it
                    await _remove_in_time(path, remove_any, str(path))
        else:
            await _remove_in_time(path, self._remove, path)
            self.trash.wake()
        self._leftovers.discard(path)

    async def clean(self) -> None:
        """Try to remove all leftovers in parallel; those that cannot be removed are retried at the next call."""

        async def try_one(path: Path) -> None:
            with self._cleaning.item(_named(path)):
                await self.remove_leftover(path)

        async with asyncio.TaskGroup() as tasks:
            for path in list(self._cleaning.due(self.leftovers(), _named)):
                tasks.create_task(try_one(path), name=f"leftover-{path.name}")

    def get(self, chain_id: str) -> LayerMeta | None:
        """The record of an unpacked layer, or None."""
        return self._known.get(chain_id)

    async def ensure(self, stack: Sequence[Layer]) -> LayerMeta:
        """Ensure that the topmost layer of the stack is unpacked, and the layers below where its content needs them.

        A layer is unpacked once from the same blobs, even for parallel calls; layers of one image may be unpacked in
        parallel. Raises NotFound if the blob of one of them is missing, Invalid if the layer is bad, Transient for
        problems of the machine (disk full).
        """
        layer = stack[-1]
        # An image may claim any layer as its own, and its blobs tell only when they are unpacked that they are another.
        async with self._lock(layer.chain_id, *(each.digest for each in stack)):
            async with self._lock(layer.chain_id):
                known = self._known.get(layer.chain_id)
            if known is not None:
                return known
            number = self._next
            self._next += 1
            directory = self.directory / str(number)
            try:
                outcome = await self._unpack(stack, directory)
                if layer.file:
                    await run_blocking(layer.chain_id, self._unpacker.share, layer, directory)
                meta = LayerMeta(
                    directory=number,
                    chain_id=layer.chain_id,
                    diff_id=layer.diff_id,
                    bytes=outcome.bytes,
                    inodes=outcome.inodes,
                    has_root=outcome.has_root,
                    boot=boot_id(),
                )
                async with self._lock(layer.chain_id):
                    known = self._known.get(layer.chain_id)
                    if known is None:
                        await run_blocking(layer.chain_id, self._publish, meta)
            except BaseException:
                await self._drop(directory)
                raise
            if known is not None:  # the same, from other blobs
                await self._drop(directory)
            return known or meta

    async def _drop(self, directory: Path) -> None:
        """Move the directory of a layer that does not come into use to the trash, now or later."""
        self._leftovers.add(directory)
        with self._cleaning.item(_named(directory)):
            await shielded(partial(self.remove_leftover, directory))

    @asynccontextmanager
    async def pinned(self, chain_ids: Sequence[str]) -> AsyncIterator[None]:
        """Keep these layers from being removed, and a worker ready for those to be unpacked, in an open context."""
        self._pins.update(chain_ids)
        try:
            async with nullcontext() if all(each in self._known for each in chain_ids) else self._unpacker.standby():
                yield
        finally:
            self._pins.subtract(chain_ids)
            self._pins += Counter()

    async def prune(self, wanted: Collection[str]) -> None:
        """Remove the layers that are neither wanted nor pinned; a failed removal does not stop the others."""
        unwanted = [chain_id for chain_id in self._known if chain_id not in wanted and not self._pins[chain_id]]
        for chain_id in self._pruning.due(unwanted):
            with self._pruning.item(chain_id):
                await self._forget(chain_id)
        await self.clean()

    async def _forget(self, chain_id: str) -> None:
        async with self._lock(chain_id):
            meta = self._known.get(chain_id)
            if meta is None or self._pins[chain_id]:
                return
            file = self._file(chain_id)
            await _remove_in_time(file, remove_any, str(file))
            del self._known[chain_id]
            self._leftovers.add(self.directory / str(meta.directory))

    async def sync(self, chain_ids: Iterable[str]) -> None:
        """Write these layers to the disk, so that they need not be unpacked again after a loss of power."""
        new = [meta for chain_id in chain_ids if (meta := self._known.get(chain_id)) and not meta.synced]
        if new:
            await run_blocking("sync", sync_filesystem, self.directory)
            for meta in new:
                if self._known.get(meta.chain_id) is meta:
                    await run_blocking(meta.chain_id, self._publish, msgspec.structs.replace(meta, synced=True))

    def used(self) -> tuple[Bytes, int]:
        """The bytes and inodes that all layers use."""
        known = self._known.values()
        return Bytes(sum(meta.bytes for meta in known)), sum(meta.inodes for meta in known)

    async def _unpack(self, stack: Sequence[Layer], directory: Path) -> Outcome:
        await run_blocking(directory.name, directory.mkdir, 0o755)
        outcome = await self._unpacker.run(stack[-1], directory)
        if len(stack) == 1 or not (outcome.implicit or outcome.missing_links):
            if outcome.missing_links:
                raise Invalid(
                    f"layer {stack[-1].digest}: hard link to {outcome.missing_links[0]!r}, which does not exist"
                )
            return outcome
        # The layer depends on the layers below: directories that it does not describe, or files that it links to.
        below = [await self.ensure(stack[: count + 1]) for count in range(len(stack) - 1)]
        roots = [self.directory / str(meta.directory) for meta in below]
        owner = f"layer/{directory.name}"
        look = partial(_may_exist, roots, outcome.implicit, self._clock.monotonic)
        if bool(outcome.missing_links) or await blocking.call_stoppable("layers/look", look, at_once=1):
            await blocking.call_stoppable(owner, partial(_remove_all, directory))
            await run_blocking(directory.name, directory.mkdir, 0o755)
            async with self._unpacker.merged(below, directory) as merged:
                again = await self._unpacker.run(stack[-1], directory, merged)
            return msgspec.structs.replace(again, has_root=outcome.has_root)
        return outcome

    def _publish(self, meta: LayerMeta) -> None:
        file = self._file(meta.chain_id)
        try:
            write_atomic(file, msgspec.json.encode(meta))
        except OSError as error:
            raise wrap(error, f"cannot write {file}") from error
        self._known[meta.chain_id] = meta

    def _lock(self, chain_id: str, *blobs: str) -> asyncio.Lock:
        return self._locks.setdefault((chain_id, *blobs), asyncio.Lock())

    def _is_there(self, meta: LayerMeta) -> bool:
        return is_directory(self.directory / str(meta.directory))

    def _remove(self, path: Path) -> None:
        """Remove a directory of a layer or of its mounts, or any other file; the content goes to the trash.

        Transient: a worker is writing there.
        """
        try:
            os.close(lock_layer(self.directory / path.name, fcntl.LOCK_EX))
        except BlockingIOError as error:
            raise Transient(f"a worker of an earlier server still unpacks layer {path}") from error
        except OSError:
            pass  # it is not a directory, so no worker uses it
        merge = self._merge.resolve() / path.name
        with suppress(NotFound):
            unmount_all_under(str(merge), lazy=True)
        remove_any(str(merge))
        if path.parent == self._merge:
            return
        # The rename ensures that a partly removed layer never counts as a complete one, even if its record survives.
        gone = path if path.name.endswith(_GONE) else path.with_name(path.name + _GONE)
        try:
            path.rename(gone)
        except FileNotFoundError:
            pass  # an earlier attempt renamed it
        except OSError as error:
            raise wrap(error, f"cannot remove {path}") from error
        self.trash.take(gone)

    def _file(self, chain_id: str) -> Path:
        return self._meta / f"{chain_id.replace(':', '-')}.json"


def _named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


async def _remove_in_time(path: Path, function: Callable[[*_Ts], None], *args: *_Ts) -> None:
    await blocking.call_to_end(f"leftover/{path.name}", function, *args, deadline=_REMOVAL, at_once=1)


def _read(file: Path) -> LayerMeta | None:
    try:
        return _decoder.decode(read_again(partial(read_regular, file, _LONGEST_RECORD)))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _log.warning(
            "layer record unreadable: unpacking the layer again", extra={"file": str(file), "error": str(error)}
        )
        return None


def _relabel(directory: Path, label: str) -> None:
    """Label the layers of servers without SELinux; new ones inherit it from the directory.

    The label of an overlay mount is not enough: the kernel checks that of a layer's file, too, when a process maps it.
    """
    try:
        changed = relabel_once(str(directory), label)
    except PykubeletError as error:
        _log.warning("image layers cannot get their SELinux label", extra={"label": label, "error": str(error)})
        return
    if changed:
        _log.info("image layers have got their SELinux label", extra={"label": label, "files": changed})


def _remove_all(directory: Path, is_stopped: Callable[[], bool]) -> None:
    for _ in removal_steps(str(directory)):
        if is_stopped():
            return


def _may_exist(
    roots: Sequence[Path], paths: Sequence[str], now: Callable[[], Seconds], is_stopped: Callable[[], bool]
) -> bool:
    """Whether one of the paths exists in one of the directories, or there are too many to look at all of them."""
    until = now() + _LOOK
    for root in roots:
        for path in paths:
            if is_stopped():
                return False
            if now() > until:
                return True
            try:
                close_quietly(open_in_root(root, path, os.O_PATH | os.O_NOFOLLOW))
            except (PykubeletError, OSError):
                continue
            return True
    return False
