"""Errors of a registry or its proxy: each is one that callers expect, and shows neither credentials nor other bytes."""

import asyncio
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from pykubelet.base.errors import Invalid, Permanent
from pykubelet.base.image_reference import parse
from pykubelet.criserver.images.image_types import RegistryUnavailable, Unreachable
from pykubelet.criserver.images.manifests import Descriptor, digest_of
from pykubelet.criserver.images.registry import HostConfig, http
from pykubelet.criserver.images.registry.config import shown_url
from pykubelet.criserver.images.registry.http import Request, open_wire
from tests.unit.base.http.http_server import http_server, redirect
from tests.unit.criserver.images.fakeregistry import FakeRegistry
from tests.unit.criserver.images.world import DIFFS, LAYERS, World, check

_NO_NAMES = ["a" * 64 + ".example", "a..example", ".example", "xn--\xfc.example"]
_PAUSE = 0.02
"""Seconds between two bytes of a slow server."""


def _only_proxy(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, url)


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


@pytest.mark.parametrize("registry", ["https://registry.example/v2/", "http://registry.example/v2/"])
@pytest.mark.parametrize("proxy", ["proxy.example:99999", "pr\u2100xy.example:1"])
async def test_url_of_a_proxy_that_is_invalid_is_not_shown(
    registry: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only_proxy(monkeypatch, f"http://me:pa55word@{proxy}")
    said = await _failure(registry)
    assert said.endswith(": its URL or that of the proxy is invalid")


async def test_password_of_a_redirect_is_not_shown() -> None:
    async with http_server(lambda _: redirect("http://me:pa55word@127.0.0.1:1/x")) as server:
        said = await _failure(f"http://127.0.0.1:{server.port}/x")
    assert said.startswith("http://127.0.0.1:1 cannot be reached")


async def test_query_of_a_redirect_to_a_server_that_is_unreachable_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Storage services sign such URLs: with one, any client can read the blob."""

    async def connect(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", connect)
    said = await _failure("https://storage.example/x?signature=pa55word")
    assert said == "https://storage.example cannot be reached or stopped responding: connecting takes too long"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:pa55word@host:0/x?signature=pa55word", "'https://…'"),
        ("https://me:pa55word@h\u2100st/x", "'https://…'"),
        ("https://me:pa55word@" + _NO_NAMES[0], "'https://…'"),
        ("me:pa55word@host", "'…'"),
        ("https://a..example/x?signature=pa55word", "'https://a..example/x?…'"),
    ],
)
def test_redirect_that_is_invalid_is_shown_without_its_password_and_query(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "url", ["https://me:pa55word@127.0.0.1:0/", "http://me:pa55word@" + _NO_NAMES[0], "http://a..b/?k=pa55word"]
)
async def test_password_of_a_redirect_that_is_invalid_is_not_shown(url: str) -> None:
    async with http_server(lambda _: redirect(url)) as server, asyncio.timeout(30), open_wire() as wire:
        with pytest.raises(Permanent, match="is not a valid URL") as caught:
            async with wire.send(Request(f"http://127.0.0.1:{server.port}/x")):
                pass
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize("host", ["h\u2100st", "[bad"])
async def test_mirror_that_is_no_url_is_refused_without_its_password(host: str, tmp_path: Path) -> None:
    world = World(tmp_path, {"registry.example": HostConfig((f"https://me:pa55word@{host}",))})
    with pytest.raises(Invalid, match=r"of registry\.example must be") as caught:
        await world.images.pull("registry.example/app:1")
    assert "pa55word" not in str(caught.value)


@pytest.mark.parametrize("user", ["me", ""])
async def test_password_of_a_mirror_is_refused_and_not_shown(user: str, tmp_path: Path) -> None:
    world = World(tmp_path, {"registry.example": HostConfig((f"https://{user}:pa55word@mirror.example",))})
    with pytest.raises(Invalid, match=r"mirror 'mirror\.example' of registry\.example must be"):
        await world.images.pull("registry.example/app:1")


async def test_answer_that_is_not_http_is_not_quoted() -> None:
    async with http_server(lambda _: b"secret " * 1000) as server:
        said = await _failure(f"http://127.0.0.1:{server.port}/v2/")
    assert "secret" not in said


@pytest.mark.parametrize(
    "begin", [b"5;", b"5\r\nhello\r\n5;", b"5\r\nhello\r\n0\r\nX: "], ids=["first", "next", "trailer"]
)
async def test_blob_of_which_no_more_comes_is_given_up_whatever_else_does(
    begin: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold up every other pull of this blob, with a byte a minute."""
    blob = Descriptor(digest_of(b"hello world"), 11)
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + begin)
            while not writer.transport.is_closing():
                writer.write(b"x")
                await asyncio.sleep(_PAUSE)
        writer.close()

    monkeypatch.setattr(http, "_READ", 0.3)
    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    world = World(tmp_path)
    host = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, asyncio.timeout(60), world.registry.open(parse(f"{host}/app:1"), None) as repository:
        with world.content.writer(blob.digest, blob.size, host) as sink, pytest.raises(RegistryUnavailable):
            await repository.blob(blob, sink, lambda _: None)
    assert asked == 4
