"""The calls of ImageTransfer (``proto/images_v1.proto``), this project's own: progress of pulls, archives, names."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import IO, Protocol, TypeVar

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.criserver.images.image_types import (
    AuthConfig,
    ImageRecord,
    ImageRemoval,
    OnProgress,
    Phase,
    Progress,
    PrunedImages,
)
from pykubelet.criserver.server.call_table import Calls
from pykubelet.criserver.server.cri_calls.images import auth_of, fitted, image_of, name_unavailable_registries
from pykubelet.pb import images_v1_pb2 as transfer

_BETWEEN: Seconds = 0.1
"""Interval between two progress messages."""
_MAX_EXPORTS = 1000
_T = TypeVar("_T")

_PHASES = {
    Phase.RESOLVING: transfer.RESOLVING,
    Phase.RESOLVED: transfer.RESOLVED,
    Phase.WAITING: transfer.WAITING,
    Phase.DOWNLOADING: transfer.DOWNLOADING,
    Phase.PRESENT: transfer.PRESENT,
    Phase.UNPACKING: transfer.UNPACKING,
    Phase.DONE: transfer.DONE,
}


class Images(Protocol):
    """The images of this node."""

    async def pull(self, reference: str, auth: AuthConfig | None, on_progress: OnProgress) -> ImageRecord:
        """Pull an image."""
        ...

    async def import_archive(
        self, file: IO[bytes], what: str, tags: Sequence[str], on_progress: OnProgress
    ) -> tuple[ImageRecord, ...]:
        """Import the images of an archive."""
        ...

    def export_archive(self, refs_or_ids: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Export images as an archive."""
        ...

    async def remove_name(self, ref_or_id: str, users: "Users", *, force: bool) -> ImageRemoval:
        """Remove one name of an image, or the image by its id."""
        ...

    async def tag(self, ref_or_id: str, name: str) -> ImageRecord:
        """Give an image another name."""
        ...

    async def prune(self, users: "Users", keep: Sequence[str], *, also_tagged: bool, dry_run: bool) -> PrunedImages:
        """Remove unused images."""
        ...

    @property
    def running_pulls(self) -> Sequence[Progress]:
        """The pulls that are running now."""
        ...


Users = Callable[[str], Sequence[str]]
"""Returns the names of the containers that use an image, by its id."""


class TransferCalls:
    """The calls of ImageTransfer."""

    def __init__(self, images: Images, users: Users) -> None:
        self._images = images
        self._users = users

    def register(self, calls: Calls) -> None:
        """Register the calls of this group."""
        calls.stream("Pull", transfer.PullRequest, self.pull)
        calls.exchange("Import", transfer.ImportRequest, self.import_archive)
        calls.stream("Export", transfer.ExportRequest, self.export)
        calls.unary("Remove", transfer.RemoveRequest, self.remove)
        calls.unary("Tag", transfer.TagRequest, self.tag)
        calls.unary("Prune", transfer.PruneRequest, self.prune)
        calls.unary("ListPulls", transfer.ListPullsRequest, self.list_pulls)

    async def pull(self, request: transfer.PullRequest) -> AsyncGenerator[transfer.TransferReply, None]:
        """Pull an image and report the progress of each layer."""
        _check_named(request.image)
        auth = auth_of(request.auth) if request.HasField("auth") else None

        async def work(progress: OnProgress) -> Sequence[ImageRecord]:
            return (await self._images.pull(request.image, auth, progress),)

        with name_unavailable_registries():
            async with aclosing(_with_progress(work)) as replies:
                async for reply in replies:
                    yield reply

    async def import_archive(
        self, requests: AsyncIterator[transfer.ImportRequest]
    ) -> AsyncGenerator[transfer.TransferReply, None]:
        """Import the images of an archive that is sent in the requests."""
        first = await anext(requests, transfer.ImportRequest())
        read, write = os.pipe()
        file = os.fdopen(read, "rb", buffering=0)

        async def work(progress: OnProgress) -> Sequence[ImageRecord]:
            with file:  # after the close, a blocked write to the pipe fails
                return await self._images.import_archive(file, "the archive", tuple(first.tags), progress)

        feeder = asyncio.ensure_future(_feed(write, first, requests))
        try:
            async with aclosing(_with_progress(work, feeder)) as replies:
                async for reply in replies:
                    yield reply
        finally:
            file.close()

    async def export(self, request: transfer.ExportRequest) -> AsyncGenerator[transfer.ExportReply, None]:
        """Export images as an archive."""
        if not 1 <= len(request.images) <= _MAX_EXPORTS:
            raise Invalid(f"cannot export {len(request.images)} images: name between 1 and {_MAX_EXPORTS}")
        async with aclosing(self._images.export_archive(request.images)) as pieces:
            async for piece in pieces:
                yield transfer.ExportReply(data=piece)

    async def remove(self, request: transfer.RemoveRequest) -> transfer.RemoveReply:
        """Remove one name of an image, and the image with its last name."""
        _check_named(request.image)
        removed = await self._images.remove_name(request.image, self._users, force=request.force)
        return transfer.RemoveReply(names=removed.names, id=removed.id, freed=removed.freed)

    async def tag(self, request: transfer.TagRequest) -> transfer.TagReply:
        """Give an image another name."""
        _check_named(request.source)
        _check_named(request.target)
        return transfer.TagReply(image=image_of(await self._images.tag(request.source, request.target)))

    async def prune(self, request: transfer.PruneRequest) -> transfer.PruneReply:
        """Remove the images that no container uses."""
        pruned = await self._images.prune(self._users, request.keep, also_tagged=request.all, dry_run=request.dry_run)
        return transfer.PruneReply(images=fitted([image_of(record) for record in pruned.images]), freed=pruned.freed)

    async def list_pulls(self, _: transfer.ListPullsRequest) -> transfer.ListPullsReply:
        """List the pulls that are running."""
        return transfer.ListPullsReply(pulls=[_progress(step) for step in self._images.running_pulls])


def _check_named(image: str) -> None:
    if not image:
        raise Invalid("an image reference is needed")


async def _with_progress(
    work: Callable[[OnProgress], Awaitable[Sequence[ImageRecord]]], feeder: "asyncio.Future[None] | None" = None
) -> AsyncGenerator[transfer.TransferReply, None]:
    """Run the work and stream its progress; it is cancelled if the client disconnects.

    The feeder of its pipe is ended first: a blocked read from the pipe cannot be cancelled otherwise.
    """
    progress: dict[str, Progress] = {}
    changed = asyncio.Event()

    def note(step: Progress) -> None:
        progress[step.layer] = step
        changed.set()

    async with AsyncExitStack() as stack:
        task = asyncio.ensure_future(work(note))
        stack.push_async_callback(_cancel, task)
        if feeder is not None:
            stack.push_async_callback(_cancel, feeder)
        task.add_done_callback(lambda _: changed.set())
        while not task.done():
            await changed.wait()
            changed.clear()
            if progress:
                batch = [_progress(step) for step in progress.values()]
                progress.clear()
                yield transfer.TransferReply(progress=batch)
            await asyncio.wait({task}, timeout=_BETWEEN)
        last = [_progress(step) for step in progress.values()]
        yield transfer.TransferReply(progress=last, images=[image_of(record) for record in task.result()])


async def _cancel(task: "asyncio.Future[_T]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # mark as retrieved; the caller gets it from the result


def _progress(step: Progress) -> transfer.Progress:
    return transfer.Progress(
        image=step.reference, layer=step.layer, phase=_PHASES[step.phase], done=step.done, total=step.total
    )


async def _feed(fd: int, first: transfer.ImportRequest, rest: AsyncIterator[transfer.ImportRequest]) -> None:
    """Write the data of the requests to a pipe, until they end or the reader has closed it."""
    try:
        with suppress(BrokenPipeError):
            await blocking.call_to_end(f"import/{fd}", _write, fd, first.data, deadline=None)
            async for request in rest:
                await blocking.call_to_end(f"import/{fd}", _write, fd, request.data, deadline=None)
    finally:
        os.close(fd)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
