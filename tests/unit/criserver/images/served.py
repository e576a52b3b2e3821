"""Image calls served on a socket, as the server does, without a runtime behind them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from pykubelet.base.clock import SystemClock
from pykubelet.base.units import Bytes
from pykubelet.criserver.images import ImageManager
from pykubelet.criserver.server import CriServer
from pykubelet.criserver.server.cri_calls.images import ImageCalls
from pykubelet.criserver.server.cri_calls.transfer import TransferCalls
from pykubelet.criserver.stats.stats_interfaces import LayerUsage
from pykubelet.testing.wait import until


class NoContainers:
    """No container has written anything."""

    async def total(self) -> LayerUsage:
        return LayerUsage("/", Bytes(0), 0)


@contextlib.asynccontextmanager
async def serve(images: ImageManager, directory: Path, users: Mapping[str, Sequence[str]] = {}) -> AsyncIterator[str]:
    """The socket's path. ``users``: the containers that use an image, by its id."""
    socket = directory / "s.sock"
    server = CriServer(
        path=socket,
        runtime=(),
        images=(ImageCalls(images, NoContainers(), clock=SystemClock()),),
        transfer=(TransferCalls(images, lambda image: users.get(image, ())),),
    )
    task = asyncio.create_task(server.run(), name="images-server")
    try:
        await until(lambda: socket.is_socket() and socket.stat().st_mode & 0o777 == 0o660)
        yield str(socket)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
