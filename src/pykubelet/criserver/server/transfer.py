"""The calls of our own ImageTransfer (``proto/images_v1.proto``): pulls that tell how far they are, and archives."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import IO, Protocol, TypeVar

from pykubelet.base import blocking
from pykubelet.base.errors import Invalid
from pykubelet.base.units import Seconds
from pykubelet.criserver.images.types import AuthConfig, ImageRecord, OnProgress, Phase, Progress
from pykubelet.criserver.server.calls import Calls
from pykubelet.criserver.server.images import auth_of, image_of, name_unavailable_registries
from pykubelet.pb import images_v1_pb2 as transfer

_BETWEEN: Seconds = 0.1
"""Between two messages about progress."""
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
        """Fetch one."""
        ...

    async def import_archive(
        self, file: IO[bytes], what: str, tags: Sequence[str], on_progress: OnProgress
    ) -> tuple[ImageRecord, ...]:
        """Take those of an archive."""
        ...

    def export_archive(self, refs_or_ids: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Give them as an archive."""
        ...


class TransferCalls:
    """The whole service."""

    def __init__(self, images: Images) -> None:
        self._images = images

    def register(self, calls: Calls) -> None:
        """Put the calls into the table."""
        calls.stream("Pull", transfer.PullRequest, self.pull)
        calls.exchange("Import", transfer.ImportRequest, self.import_archive)
        calls.stream("Export", transfer.ExportRequest, self.export)

    async def pull(self, request: transfer.PullRequest) -> AsyncGenerator[transfer.TransferReply, None]:
        """Fetch an image, and tell of each layer how far it is."""
        if not request.image:
            raise Invalid("an image reference is needed")
        auth = auth_of(request.auth) if request.HasField("auth") else None

        async def work(news: OnProgress) -> Sequence[ImageRecord]:
            return (await self._images.pull(request.image, auth, news),)

        with name_unavailable_registries():
            async with aclosing(_told(work)) as replies:
                async for reply in replies:
                    yield reply

    async def import_archive(
        self, requests: AsyncIterator[transfer.ImportRequest]
    ) -> AsyncGenerator[transfer.TransferReply, None]:
        """Take the images of an archive that comes in with the requests."""
        first = await anext(requests, transfer.ImportRequest())
        read, write = os.pipe()
        file = os.fdopen(read, "rb", buffering=0)

        async def work(news: OnProgress) -> Sequence[ImageRecord]:
            with file:  # once it is closed, a write that waits for room fails
                return await self._images.import_archive(file, "the archive", tuple(first.tags), news)

        feeder = asyncio.ensure_future(_feed(write, first, requests))
        try:
            async with aclosing(_told(work, feeder)) as replies:
                async for reply in replies:
                    yield reply
        finally:
            file.close()

    async def export(self, request: transfer.ExportRequest) -> AsyncGenerator[transfer.ExportReply, None]:
        """Give images as an archive."""
        if not 1 <= len(request.images) <= _MAX_EXPORTS:
            raise Invalid(f"name between 1 and {_MAX_EXPORTS} images to export")
        async with aclosing(self._images.export_archive(request.images)) as pieces:
            async for piece in pieces:
                yield transfer.ExportReply(data=piece)


async def _told(
    work: Callable[[OnProgress], Awaitable[Sequence[ImageRecord]]], feeder: "asyncio.Future[None] | None" = None
) -> AsyncGenerator[transfer.TransferReply, None]:
    """Do the work, and tell what is new while it goes on; who stops listening cancels it.

    The feeder of its pipe is ended first: somebody who reads from the pipe cannot be cancelled otherwise.
    """
    news: dict[str, Progress] = {}
    changed = asyncio.Event()

    def note(step: Progress) -> None:
        news[step.layer] = step
        changed.set()

    async with AsyncExitStack() as stack:
        task = asyncio.ensure_future(work(note))
        stack.push_async_callback(_ended, task)
        if feeder is not None:
            stack.push_async_callback(_ended, feeder)
        task.add_done_callback(lambda _: changed.set())
        while not task.done():
            await changed.wait()
            changed.clear()
            if news:
                batch = [_progress(step) for step in news.values()]
                news.clear()
                yield transfer.TransferReply(progress=batch)
            await asyncio.wait({task}, timeout=_BETWEEN)
        last = [_progress(step) for step in news.values()]
        yield transfer.TransferReply(progress=last, images=[image_of(record) for record in task.result()])


async def _ended(task: "asyncio.Future[_T]") -> None:
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()  # seen; who waits for the result gets it too


def _progress(step: Progress) -> transfer.Progress:
    return transfer.Progress(
        image=step.reference, layer=step.layer, phase=_PHASES[step.phase], done=step.done, total=step.total
    )


async def _feed(fd: int, first: transfer.ImportRequest, rest: AsyncIterator[transfer.ImportRequest]) -> None:
    """Write what requests bring into a pipe, until they end or nobody reads any more."""
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
