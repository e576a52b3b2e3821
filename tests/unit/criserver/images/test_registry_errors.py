"""Errors of a registry or its proxy: each is one that callers expect, and shows neither credentials nor other bytes."""

import asyncio
from pathlib import Path

import pytest

from pykubelet.base.errors import Permanent
from pykubelet.criserver.images.image_types import Unreachable
from pykubelet.criserver.images.registry import HostConfig
from pykubelet.criserver.images.registry.http import Request, open_wire
from tests.unit.base.http.http_server import http_server, redirect
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check

_NO_NAMES = ["a" * 64 + ".example", "a..example", ".example", "xn--\xfc.example"]


def _only_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", url)


async def _failure(url: str) -> str:
    async with asyncio.timeout(30), open_wire() as wire:
        with pytest.raises(Unreachable) as caught:
            async with wire.send(Request(url)):
                pass
    return str(caught.value)


@pytest.mark.parametrize("host", _NO_NAMES)
async def test_redirect_to_a_name_that_no_host_can_have_is_refused(host: str) -> None:
    async with http_server(lambda _: redirect(f"http://{host}/x")) as server, asyncio.timeout(30), open_wire() as wire:
        with pytest.raises(Permanent, match="is not a valid URL"):
            async with wire.send(Request(f"http://127.0.0.1:{server.port}/x")):
                pass


@pytest.mark.parametrize("host", _NO_NAMES)
async def test_mirror_that_redirects_to_no_host_is_left_for_the_registry(
    registry: FakeRegistry, other: FakeRegistry, tmp_path: Path, host: str
) -> None:
    registry.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.add_image("app:1", LAYERS[:1], DIFFS[:1])
    other.redirect = lambda _: f"http://{host}/x"
    world = World(tmp_path, {registry.host: HostConfig((f"http://{other.host}",), plain_http=True)})
    check(world, await world.images.pull(f"{registry.host}/app:1"))
    assert other.seen


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy answered 407 Proxy Authentication Required"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not valid HTTP"),
        (b"HTTP/1.1 502 Bad Gateway\r\nX: y\r\nX: ", "Server disconnected"),
    ],
)
async def test_refusal_of_a_proxy_fails_without_its_password_in_the_error(
    answer: bytes, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with http_server(lambda _: answer) as proxy:
        _only_proxy(monkeypatch, f"http://me:pa55word@127.0.0.1:{proxy.port}")
        said = await _failure("https://registry.example/v2/")
    assert said.endswith(f": {expected}") and "pa55word" not in said


async def test_url_of_a_proxy_that_is_invalid_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    _only_proxy(monkeypatch, "http://me:pa55word@proxy.example:99999")
    said = await _failure("https://registry.example/v2/")
    assert said.endswith(": its URL or that of the proxy is invalid")


async def test_answer_that_is_not_http_is_not_quoted() -> None:
    async with http_server(lambda _: b"secret " * 1000) as server:
        said = await _failure(f"http://127.0.0.1:{server.port}/v2/")
    assert "secret" not in said
