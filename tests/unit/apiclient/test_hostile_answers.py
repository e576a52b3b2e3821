"""Answers of what pretends to be the API server: errors show no credentials."""

import asyncio
import base64

import pytest

from pykubelet.apiclient import ApiClient, ClusterConfig
from pykubelet.apiclient.kubeconfig import User
from pykubelet.apiclient.resources import PODS
from pykubelet.base.errors import PykubeletError
from tests.unit.apiclient.clocks import QuickClock
from tests.unit.base.http.http_server import http_server

_SECRETS = ("t0ken", "pa55word", base64.b64encode(b"me:pa55word").decode())


async def _failure(config: ClusterConfig) -> str:
    client = ApiClient(config, QuickClock())
    try:
        async with asyncio.timeout(30):
            with pytest.raises(PykubeletError) as caught:
                await client.get(PODS.at("default", "a"))
    finally:
        await client.close()
    return str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b""],
)
async def test_malformed_answer_fails_without_the_token_in_its_error(answer: bytes) -> None:
    async with http_server(lambda _: answer) as server:
        said = await _failure(ClusterConfig(f"http://127.0.0.1:{server.port}", user=User(token="t0ken")))
    assert not [each for each in _SECRETS if each in said]
