"""The edge to aiohttp, against a real server on loopback."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from pykubelet.base.errors import Transient
from pykubelet.kubelet.desired.manifest.manifest_types import MAX_BYTES
from pykubelet.kubelet.desired.sources.http_fetch import AiohttpFetch
from pykubelet.kubelet.desired.sources.source_interfaces import Response
from tests.unit.base.http.http_server import http_server


async def plain(request: web.Request) -> web.Response:
    if request.headers.get("If-None-Match") == '"1"':
        return web.Response(status=304)
    return web.Response(text=f"token={request.headers.getall('X-Token', [])}", headers={"ETag": '"1"'})


async def redirect(request: web.Request) -> web.Response:
    return web.Response(status=302, headers={"Location": request.query["to"]})


async def large(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    chunk = b"x" * 1_000_000
    for _ in range(30):
        try:
            await response.write(chunk)
        except ConnectionError:
            break
    return response


async def circle(request: web.Request) -> web.Response:
    return web.Response(status=307, headers={"Location": "/circle"})


STOP = web.AppKey("stop", asyncio.Event)


async def slow(request: web.Request) -> web.Response:
    await request.app[STOP].wait()
    return web.Response()


async def squeezed(request: web.Request) -> web.Response:
    return web.Response(body=gzip.compress(b"x" * 1000), headers={"Content-Encoding": "gzip"})


@pytest.fixture
async def base() -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes([web.get(f"/{name}", handler) for name, handler in (("plain", plain), ("redirect", redirect))])
    app.add_routes([web.get("/large", large), web.get("/slow", slow), web.get("/circle", circle)])
    app.add_routes([web.get("/squeezed", squeezed)])
    app[STOP] = asyncio.Event()
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    app[STOP].set()
    await runner.cleanup()


@pytest.fixture
async def fetch() -> AsyncIterator[AiohttpFetch]:
    client = AiohttpFetch()
    yield client
    await client.close()


async def test_headers_etag_and_status(base: str, fetch: AiohttpFetch) -> None:
    headers = (("X-Token", "a"), ("X-Token", "b"))
    assert await fetch.get(f"{base}/plain", headers, 5) == Response(200, b"token=['a', 'b']", '"1"')
    assert (await fetch.get(f"{base}/plain", (("If-None-Match", '"1"'),), 5)).status == 304
    assert (await fetch.get(f"{base}/none", (), 5)).status == 404


async def test_redirects_stay_on_the_host(base: str, fetch: AiohttpFetch) -> None:
    assert (await fetch.get(f"{base}/redirect?to=/plain", (), 5)).status == 200
    for target in ("http://169.254.169.254/latest", "http://localhost:1/", "https://127.0.0.1/", "file:///etc/passwd"):
        with pytest.raises(Transient, match="redirects to another host"):
            await fetch.get(f"{base}/redirect?to={target}", (("X-Token", "a"),), 5)


async def test_redirects_in_a_circle_end(base: str, fetch: AiohttpFetch) -> None:
    with pytest.raises(Transient, match="more than 5 redirects"):
        await fetch.get(f"{base}/circle", (), 5)


async def test_a_large_answer_is_cut(base: str, fetch: AiohttpFetch) -> None:
    response = await fetch.get(f"{base}/large", (), 10)
    assert MAX_BYTES < len(response.body) < MAX_BYTES + 2_000_000


async def test_compressed_answers_are_not_unpacked(base: str, fetch: AiohttpFetch) -> None:
    assert (await fetch.get(f"{base}/squeezed", (), 5)).body.startswith(b"\x1f\x8b")


async def test_slow_response_times_out(base: str, fetch: AiohttpFetch) -> None:
    with pytest.raises(Transient, match=r"no answer within 0.1 s"):
        await fetch.get(f"{base}/slow", (), 0.1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "nonsense", "http://[", "ftp://127.0.0.1/"])
async def test_failed_requests_are_transient_errors(fetch: AiohttpFetch, url: str) -> None:
    with pytest.raises(Transient, match="no answer"):
        await fetch.get(url, (), 5)


async def test_etag_that_cannot_be_sent_back_is_left_out(fetch: AiohttpFetch) -> None:
    async with http_server(lambda _: b'HTTP/1.1 200 OK\r\nETag: "\xff"\r\nContent-Length: 3\r\n\r\npod') as server:
        url = f"http://127.0.0.1:{server.port}/"
        assert await fetch.get(url, (), 30) == Response(200, b"pod", "")


async def test_url_that_is_invalid_is_not_shown(fetch: AiohttpFetch) -> None:
    with pytest.raises(Transient) as caught:
        await fetch.get("http://me:pa55word@127.0.0.1:99999/", (), 30)
    assert str(caught.value) == "no answer: the URL is invalid"
