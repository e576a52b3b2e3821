"""Runs the worker processes that unpack layers, each confined to the directory of its layer.

A worker keeps a lock on that directory as long as it lives, which can be longer than the server that started it.
"""

import asyncio
import errno
import fcntl
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

import msgspec
from msgspec.structs import asdict, replace

from pykubelet.base import proc
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound, Permanent, Transient
from pykubelet.base.files.decoding import convert
from pykubelet.base.units import Seconds
from pykubelet.criserver.images.image_types import Layer
from pykubelet.criserver.storage.layer_records import LayerMeta
from pykubelet.criserver.storage.remove import remove_tree
from pykubelet.criserver.unpack.limits import Limits
from pykubelet.linux.errors import wrap
from pykubelet.linux.filesystems.mounts import unmount
from pykubelet.linux.filesystems.overlay import mount_overlay

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_WORKER: Final = "pykubelet.criserver.unpack.worker"
_TIMEOUT: Final[Seconds] = 1800.0
_SHORT: Final[Seconds] = 1.0
"""After this time a worker does not count any more, so that one more may run, and the kernel shares the processors.
Three layers of an image run at a time, so that each of its 500 layers could hold up a layer of another image for it."""
_STANDBY: Final[Seconds] = 86_400.0
"""Time for which a worker waits for a layer; its download may be slow."""


class Outcome(msgspec.Struct, frozen=True):
    """The output of a worker: what it has unpacked, or ``error`` with its ``kind``."""

    kind: str = ""
    error: str = ""
    errno: int = 0
    bytes: int = 0
    inodes: int = 0
    has_root: bool = False
    implicit: tuple[str, ...] = ()
    missing_links: tuple[str, ...] = ()
    diff_id: str = ""


class _Standby:
    """A worker that loads its modules while its layer is downloaded, and then waits for it."""

    def __init__(self) -> None:
        self._channel, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, "-P", "-m", _WORKER, "-", str(its.fileno()), str(os.getpid())]
        work = proc.run(argv, timeout=_STANDBY, check=False, pass_fds=(its.fileno(),), on_start=lambda pid: its.close())
        self._task = asyncio.create_task(work, name="unpack-standby")
        self._task.add_done_callback(lambda task: its.close())

    def assign(self, arguments: Sequence[str], descriptors: Sequence[int]) -> bool:
        """Give it its work: all arguments of a worker but FD. Returns False if it does not wait any more."""
        try:
            socket.send_fds(self._channel, [json.dumps(arguments).encode()], descriptors)
        except OSError:
            return False
        return not self._task.done()

    async def result(self) -> proc.CompletedProgram:
        """Wait for the end of the work. A cancellation kills the worker. TimeoutError: it took too long."""
        self._channel.close()
        async with asyncio.timeout(_TIMEOUT):
            return await self._task

    async def end(self) -> None:
        """Kill it, whether it has work or not."""
        self._channel.close()
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()):
            _log.debug("worker on standby not started", extra={"error": str(error)})


class Unpacker:
    """Unpacks layers into directories, by a limited number of workers at a time, those not counted that take long."""

    def __init__(
        self, *, layers: Path, merge: Path, blob: Callable[[str], Path], limits: Limits | None = None, clock: Clock
    ) -> None:
        """``layers`` has the directories of all layers, ``merge`` is for mounts, ``blob`` returns a digest's file."""
        self._clock = clock
        self._layers = layers
        self._merge = merge
        self._blob = blob
        self._limits = json.dumps(asdict(replace(limits or Limits(), lock=str(layers))))
        self._workers = asyncio.Semaphore(max(2, (os.cpu_count() or 1)))
        self._standby: _Standby | None = None

    @asynccontextmanager
    async def standby(self) -> AsyncIterator[None]:
        """Keep a worker ready for the next layer while the context is open, unless there is one already.

        A worker needs a tenth of a second to start, as long as 50 MB to unpack.
        """
        own = None
        if self._standby is None:
            try:
                own = self._standby = _Standby()
            except OSError as error:  # the layer gets a worker of its own later
                _log.debug("worker on standby not started", extra={"error": str(error)})
        try:
            yield
        finally:
            if own is not None and self._standby is own:
                self._standby = None
                await own.end()

    async def run(self, layer: Layer, directory: Path, merged: Path | None = None) -> Outcome:
        """Run a worker that unpacks into the directory, or with ``merged`` into its overlay mount over those below.

        Raises Invalid if the layer is bad, Transient or Permanent for problems of the machine.
        """
        file = f"{layer.diff_id.partition(':')[0]}:{layer.file}" if layer.file else ""
        flags = (str(int(merged is not None)), str(os.getpid()), self._limits, file)
        with ExitStack() as opened:

            def keep(fd: int) -> int:
                opened.callback(os.close, fd)  # in the thread: the caller may be cancelled before it gets the number
                return fd

            try:
                path = self._blob(layer.digest)
                fd = await run_blocking(directory.name, lambda: keep(os.open(path, os.O_RDONLY | os.O_CLOEXEC)))
            except OSError as error:
                raise wrap(error, f"cannot read layer {layer.digest}") from error
            async with self._slot():
                lock = await run_blocking(directory.name, lambda: keep(lock_layer(directory, fcntl.LOCK_SH)))
                work = (f"layer {layer.digest}", str(merged or directory), str(fd), *flags)
                standby, self._standby = self._standby, None
                outcome = await _run_worker(*work, descriptors=(fd, lock), standby=standby)
        if outcome.diff_id != layer.diff_id:
            raise Invalid(f"layer {layer.digest} unpacks to {outcome.diff_id}, its image says {layer.diff_id}")
        return outcome

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """Wait for a slot, and hold it in the open context, but no longer than ``_SHORT``."""
        await self._workers.acquire()
        held = [self._workers]

        def give() -> None:
            if held:
                held.pop().release()

        timer = self._clock.call_later(_SHORT, give)
        try:
            yield
        finally:
            timer.cancel()
            give()

    def share(self, layer: Layer, directory: Path) -> None:
        """Make the blob of an unpacked file another name of that file, so that it takes its size once. Blocks.

        Both have the same content, which the worker has checked. They stay two files where that is not possible, as on
        two file systems.
        """
        file, temporary = directory / layer.file, self._merge / f"{directory.name}-blob"
        try:
            fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.fsync(fd)  # the blob is on the disk
            finally:
                os.close(fd)
            os.link(file, temporary, follow_symlinks=False)
            try:
                temporary.replace(self._blob(layer.digest))
            finally:
                # A rename between two names of one file does nothing.
                temporary.unlink(missing_ok=True)
        except OSError as error:
            _log.debug("blob and file not shared", extra={"file": str(file), "error": str(error)})

    @asynccontextmanager
    async def merged(self, below: Sequence[LayerMeta], directory: Path) -> AsyncIterator[Path]:
        """Mount the layers below with the new directory on top, while the context is open."""
        place = self._merge / directory.name
        target = place / "fs"
        lowers = [str(meta.directory) for meta in reversed(below)]

        def enter() -> None:
            for part in (place, place / "work", target):
                part.mkdir(mode=0o700)
            mount_overlay(str(self._layers), lowers, str(directory), str(place / "work"), str(target), volatile=False)

        def leave() -> None:
            try:
                unmount(str(target), lazy=True)
            except NotFound:
                pass
            remove_tree(str(place))

        try:
            await run_blocking(directory.name, enter)
            yield target
        finally:
            await run_blocking(directory.name, leave)


async def unpack_archive(fd: int, what: str, directory: Path, *, merged: bool, limits: Limits) -> Outcome:
    """Unpack a tar file, which may be compressed, below a directory, by a worker that cannot leave it.

    ``merged``: whiteouts in the file remove what is in the directory; else they become those of overlayfs. ``what``
    names the file in errors. Errors as of ``Unpacker.run``; Transient too if the disk lacks the space that ``limits``
    reserve.
    """
    known = json.dumps(asdict(limits))
    work = (str(directory), str(fd), str(int(merged)), str(os.getpid()))
    return await _run_worker(what, *work, known, "", descriptors=(fd,))


async def _run_worker(
    what: str, *arguments: str, descriptors: tuple[int, ...], standby: _Standby | None = None
) -> Outcome:
    """Run a worker. Invalid: the stream is bad; Transient or Permanent: problems of the machine."""
    outcome = _decode(await _completed(arguments, descriptors, standby), what)
    if outcome.kind == "bad":
        raise Invalid(f"{what}: {outcome.error}")
    if outcome.kind:
        kind = Permanent if outcome.errno in (errno.EPERM, errno.ENOSYS) else Transient
        raise kind(f"cannot unpack {what}: {outcome.error}")
    return outcome


async def _completed(
    arguments: tuple[str, ...], descriptors: tuple[int, ...], standby: _Standby | None
) -> proc.CompletedProgram:
    if standby is not None:
        if standby.assign((arguments[0], *arguments[2:]), descriptors):
            try:
                return await standby.result()
            except TimeoutError as error:
                raise proc.ProgramTimeout(f"the worker did not end within {_TIMEOUT:g} s and was killed") from error
        await standby.end()
    argv = [sys.executable, "-P", "-m", _WORKER, *arguments]
    return await proc.run(argv, timeout=_TIMEOUT, check=False, pass_fds=descriptors)


async def run_blocking(layer: str, function: Callable[[*_Ts], _T], *args: *_Ts) -> _T:
    """Run a blocking function without a deadline: no other operation may touch the layer before its end."""
    return await blocking.call_to_end(f"layer/{layer}", function, *args, deadline=None)


def lock_layer(directory: Path, kind: int) -> int:
    """Lock a directory and return the descriptor that holds the lock. BlockingIOError: a worker holds it."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _decode(done: proc.CompletedProgram, what: str) -> Outcome:
    try:
        # It may contain names that are not valid UTF-8, which msgspec's own decoder rejects.
        return convert(json.loads(done.stdout), Outcome)
    except (ValueError, msgspec.ValidationError) as error:
        said = done.stderr[-500:].decode(errors="replace").strip()
        raise Transient(f"cannot unpack {what}: the worker ended with {done.returncode}: {said}") from error
