"""Errors of a registry: they show nothing of what it has sent."""

import asyncio

import pytest

from pykubelet.criserver.images.image_types import Unreachable
from pykubelet.criserver.images.registry.http import Request, open_wire
from tests.unit.base.http.http_server import http_server


async def _failure(url: str) -> str:
    async with asyncio.timeout(30), open_wire() as wire:
        with pytest.raises(Unreachable) as caught:
            async with wire.send(Request(url)):
                pass
    return str(caught.value)


async def test_answer_that_is_not_http_is_not_quoted() -> None:
    async with http_server(lambda _: b"secret " * 1000) as server:
        said = await _failure(f"http://127.0.0.1:{server.port}/v2/")
    assert "secret" not in said
