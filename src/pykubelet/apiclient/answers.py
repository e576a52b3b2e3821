"""Reads the bodies of answers, up to a limit, and what is in them."""

from collections.abc import Callable
from typing import Final, TypeVar

import aiohttp

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.files.decoding import shallow

R = TypeVar("R")
MAX_BODY: Final = 64 << 20
"""Maximum bytes of an answer after it was unpacked."""
_SHORT: Final = 64 << 10
"""Maximum bytes of an answer that is read on the event loop."""


class NoAnswer(Transient):
    """No answer, or an incomplete one. ``broken``: the connection had been up, so a retry may succeed at once."""

    def __init__(self, message: str, *, broken: bool) -> None:
        super().__init__(message)
        self.broken = broken


class TooLong(NoAnswer):
    """An answer that is too long, or takes too long to arrive, and would again."""


async def read_body(response: aiohttp.ClientResponse, what: str) -> bytes:
    """Return the body, unpacked. Transient: it is too long."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            raise TooLong(f"{what}: the answer is too long", broken=False)
    return bytes(body)


async def decoded(answer: bytes, read: Callable[[bytes], R]) -> R:
    """Return what ``read`` finds in an answer, without the parts that are too deep to be read."""
    try:
        return read(answer)
    except RecursionError:
        # In a thread, as it takes long for large ones. It cannot hang.
        return read(await blocking.call("api-answers", shallow, answer, deadline=None))


async def off_loop(answer: bytes, read: Callable[[bytes], R]) -> R:
    """Return what ``read`` finds in an answer, in a thread unless the answer is short."""
    if len(answer) <= _SHORT:
        return read(answer)
    return await blocking.call("api-answers", read, answer, deadline=None)  # it cannot hang
