"""Many connections that send nothing."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager


@asynccontextmanager
async def silent_connections(address: str | tuple[str, int], count: int) -> AsyncIterator[None]:
    """Open a number of connections, one after another; they are closed at the end of the block."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket(family))
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, address)
            await asyncio.sleep(0)  # let the server accept: a full backlog would refuse connections
        yield
