import asyncio
import socket
import threading
from collections.abc import AsyncIterator

import aiohttp
import pytest

from pykubelet.base.errors import Invalid, Transient
from pykubelet.base.http.head_limits import INFORMATIONAL, BoundedConnector
from pykubelet.base.http.http_get import (
    MAX_BODY,
    HttpGet,
    HttpGetFailed,
    HttpGetter,
    HttpGetTimeout,
    PlainHttpAnswer,
    http_url,
    with_defaults,
)
from tests.unit.base.http.http_server import answer, closed_port, http_server, redirect, server_context


@pytest.fixture
async def getter() -> AsyncIterator[HttpGetter]:
    getter = HttpGetter()
    yield getter
    await getter.close()


def local(port: int, path: str = "/", *headers: tuple[str, str]) -> HttpGet:
    return HttpGet(http_url("HTTP", "127.0.0.1", port, path), headers)


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "404 Not Found", "500 Internal Server Error"])
async def test_status_and_body_whatever_the_status(getter: HttpGetter, status: str) -> None:
    body = b"" if status.startswith("204") else b"hello"
    async with http_server(lambda _: answer(status, body)) as server:
        reply = await getter.get(local(server.port, "/healthz?full=1"), 5)
    assert (reply.status, reply.body) == (int(status[:3]), body)
    assert server.lines == ["GET /healthz?full=1"]


async def test_nothing_is_sent_but_what_was_asked_for(getter: HttpGetter) -> None:
    async with http_server(lambda _: answer()) as server:
        await getter.get(local(server.port), 5)
        await getter.get(local(server.port, "/", ("X-A", "1"), ("X-A", "2"), ("Accept-Encoding", "br")), 5)
    assert server.headers(0) == {"host": f"127.0.0.1:{server.port}", "connection": "close"}
    assert server.requests[1].count("X-A: ") == 2
    assert server.headers(1)["accept-encoding"] == "br"


async def test_the_host_header_names_the_virtual_host(getter: HttpGetter) -> None:
    async with http_server(lambda _: answer()) as server:
        await getter.get(local(server.port, "/", ("Host", "a.example"), ("host", "b.example")), 5)
    assert server.requests[0].lower().count("host:") == 1
    assert server.headers()["host"] == "a.example"


async def test_headers_about_the_connection_are_not_the_users(getter: HttpGetter) -> None:
    given = (("Content-Length", "7"), ("Transfer-Encoding", "chunked"), ("Connection", "keep-alive"))
    async with http_server(lambda _: answer()) as server:
        await getter.get(local(server.port, "/", *given), 5)
    assert server.headers() == {"host": f"127.0.0.1:{server.port}", "connection": "close"}


@pytest.mark.parametrize("header", [("X", "a\r\nY: b"), ("X\nY", "a"), ("", "a"), ("X", "a\0")])
async def test_header_injection_is_refused(getter: HttpGetter, header: tuple[str, str]) -> None:
    with pytest.raises(Invalid, match="header"):
        await getter.get(local(1, "/", header), 5)


async def test_an_endless_body_is_cut(getter: HttpGetter) -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    async with http_server(lambda _: head, endless=b"x" * 65536) as server:
        reply = await getter.get(local(server.port), 5)
    assert reply.body == b"x" * MAX_BODY
    assert server.sent < 16 * 2**20


async def test_compressed_bodies_stay_compressed(getter: HttpGetter) -> None:
    async with http_server(lambda _: answer("200 OK", b"bomb", "Content-Encoding: gzip")) as server:
        assert (await getter.get(local(server.port), 5)).body == b"bomb"


async def test_request_without_an_answer_times_out(getter: HttpGetter) -> None:
    async with http_server(lambda _: None) as server:
        with pytest.raises(HttpGetTimeout, match=r'^Get "http://127.0.0.1:\d+/": no answer within 0.05 s$'):
            await getter.get(local(server.port), 0.05)


async def test_a_body_that_never_ends_is_no_answer(getter: HttpGetter) -> None:
    async with http_server(
        lambda path: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab" if path == "/" else None
    ) as s:
        with pytest.raises(HttpGetFailed):
            await getter.get(local(s.port), 1)


async def test_get_without_listener_fails(getter: HttpGetter) -> None:
    port = closed_port()
    with pytest.raises(HttpGetFailed, match=f"connect to 127.0.0.1 port {port}: Connection refused") as caught:
        await getter.get(local(port), 5)
    assert isinstance(caught.value, Transient)


@pytest.mark.parametrize("data", [b"", b"SSH-2.0-OpenSSH_9.2 secret\r\n", b"HTTP/1.1 abc secret\r\n\r\n"])
async def test_answer_that_is_not_http_fails_and_is_not_quoted(getter: HttpGetter, data: bytes) -> None:
    async with http_server(lambda _: data) as server:
        with pytest.raises(HttpGetFailed) as caught:
            await getter.get(local(server.port), 5)
    assert "secret" not in str(caught.value)


async def test_redirects_on_the_same_host_are_followed_to_any_port(getter: HttpGetter) -> None:
    async with http_server(lambda _: answer("200 OK", b"there")) as other:
        target = f"http://127.0.0.1:{other.port}/there"
        async with http_server(lambda path: redirect("b" if path == "/a" else target)) as server:
            reply = await getter.get(local(server.port, "/a", ("Host", "v.example"), ("X", "1")), 5)
            assert server.lines == ["GET /a", "GET /b"]
            assert server.headers(1)["host"] == "v.example"
    assert (reply.status, reply.body) == (200, b"there")
    assert other.headers() == {"host": f"127.0.0.1:{other.port}", "x": "1", "connection": "close"}


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://localhost:{port}/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "http://[x",
    ],
)
async def test_redirects_elsewhere_are_returned(getter: HttpGetter, location: str) -> None:
    async with http_server(lambda _: redirect(location.format(port=server.port))) as server:
        assert (await getter.get(local(server.port), 5)).status == 302
    assert len(server.requests) == 1


async def test_a_redirect_that_says_nowhere_is_returned(getter: HttpGetter) -> None:
    async with http_server(lambda _: answer("308 Permanent Redirect", b"x")) as server:
        assert (await getter.get(local(server.port), 5)).status == 308


async def test_endless_redirects_stop_after_ten_requests(getter: HttpGetter) -> None:
    async with http_server(lambda _: redirect("/again")) as server:
        with pytest.raises(HttpGetFailed, match="stopped after 10 redirects"):
            await getter.get(local(server.port), 5)
    assert len(server.requests) == 10


async def test_the_environments_proxy_is_not_used(getter: HttpGetter, monkeypatch: pytest.MonkeyPatch) -> None:
    async with http_server(lambda _: answer("418 Teapot")) as proxy, http_server(lambda _: answer()) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert (await getter.get(local(server.port), 5)).status == 200
    assert proxy.requests == []


async def test_certificates_are_not_verified(getter: HttpGetter) -> None:
    async with http_server(lambda _: answer("200 OK", b"tls"), tls=True) as server:
        reply = await getter.get(HttpGet(http_url("HTTPS", "127.0.0.1", server.port, "/")), 5)
    assert reply.body == b"tls"


async def test_an_https_url_answered_in_plain_http(getter: HttpGetter) -> None:
    async def say_bad_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(answer("400 Bad Request"))
        writer.close()

    listener = await asyncio.start_server(say_bad_request, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with listener:
        with pytest.raises(PlainHttpAnswer):
            await getter.get(HttpGet(http_url("HTTPS", "127.0.0.1", port, "/")), 5)


@pytest.mark.parametrize("url", ["http://a b/", "http://127.0.0.1:99999/", "gopher://127.0.0.1/", "/no/host"])
async def test_urls_that_cannot_be_used(getter: HttpGetter, url: str) -> None:
    with pytest.raises((Invalid, HttpGetFailed)):
        await getter.get(HttpGet(url), 5)


@pytest.mark.parametrize(
    ("scheme", "host", "path", "url"),
    [
        ("", "10.0.0.1", "", "http://10.0.0.1:80/"),
        ("HTTPS", "10.0.0.1", "/p", "https://10.0.0.1:80/p"),
        ("HTTP", "fd00::1", "/p", "http://[fd00::1]:80/p"),
        ("HTTP", "fe80::1%eth0", "/p", "http://[fe80::1%eth0]:80/p"),
        ("HTTP", "a.example", "?q=1", "http://a.example:80/?q=1"),
        ("HTTP", "a.example", "p", "http://a.example:80/p"),
        ("HTTP", "a.example", "/a%2Fb?x=%41&y=a+b", "http://a.example:80/a%2Fb?x=%41&y=a+b"),
        ("HTTP", "a.example", "/a b\r\nX: ü", "http://a.example:80/a%20b%0D%0AX:%20%C3%BC"),
    ],
)
def test_url_of_a_handler_has_defaults_and_brackets(scheme: str, host: str, path: str, url: str) -> None:
    assert http_url(scheme, host, 80, path) == url


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ((), (("User-Agent", "kube-probe/1.36"), ("Accept", "*/*"))),
        ((("user-agent", "me"), ("accept", "text/html")), (("user-agent", "me"), ("accept", "text/html"))),
        ((("User-Agent", ""), ("Accept", ""), ("X", "")), (("X", ""),)),
    ],
)
def test_default_headers_are_added_unless_the_request_has_them(
    given: tuple[tuple[str, str], ...], sent: tuple[tuple[str, str], ...]
) -> None:
    assert with_defaults(given, "kube-probe/1.36") == sent


_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"


async def test_informational_answers_before_the_answer_are_skipped(getter: HttpGetter) -> None:
    async with http_server(lambda _: _HINTS * INFORMATIONAL + answer("200 OK", b"fine")) as server:
        assert (await getter.get(local(server.port), 5)).body == b"fine"


async def test_informational_answers_without_end_are_no_answer(getter: HttpGetter) -> None:
    async with http_server(lambda _: _HINTS, endless=_HINTS * 1000) as server:
        async with asyncio.timeout(10):
            asked = [getter.get(local(server.port), None) for _ in range(20)]
            answers = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in answers} == {HttpGetFailed}
    assert "more than 8 informational responses" in str(answers[0])
    # What the kernel takes before the other side hears of the end.
    assert server.sent < 20 * 16 * 2**20


@pytest.mark.parametrize("lines", [[b"X-%d: %s" % (number, b"x" * 8000) for number in range(20)], [b"X: y"] * 5000])
async def test_answer_with_too_many_headers_is_no_answer(getter: HttpGetter, lines: list[bytes]) -> None:
    head = b"HTTP/1.1 200 OK\r\n" + b"\r\n".join(lines) + b"\r\nContent-Length: 0\r\n\r\n"
    async with http_server(lambda _: head) as server:
        with pytest.raises(HttpGetFailed):
            await getter.get(local(server.port), 10)


async def test_headers_without_end_are_no_answer(getter: HttpGetter) -> None:
    async with http_server(lambda _: b"HTTP/1.1 200 OK\r\nX: ", endless=b"x" * 1000) as server:
        with pytest.raises(HttpGetFailed):
            await getter.get(local(server.port), None)
    assert server.sent < 16 * 2**20


@pytest.mark.parametrize("begin", [b"1;", b"0\r\nX: "], ids=["extension", "trailer"])
async def test_chunks_without_a_body_are_no_answer(getter: HttpGetter, begin: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with http_server(lambda _: head + begin, endless=b"x" * 1000) as server:
        async with asyncio.timeout(10):
            with pytest.raises(HttpGetFailed):
                await getter.get(local(server.port), None)
    assert server.sent < 16 * 2**20


@pytest.mark.parametrize(
    "rest",
    [b"zz\r\nhello", b"f" * 30 + b"\r\n", b"5\r\nhelloXX", b"0\r\nno colon\r\n\r\n", b"0\r\nX: " + b"x" * 9000],
    ids=["length", "long length", "end of chunk", "trailer", "long trailer"],
)
async def test_malformed_chunk_after_the_head_ends_the_response(rest: bytes) -> None:
    read = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        await read.wait()
        writer.write(rest)
        await reader.read()  # the end of the connection
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    session = aiohttp.ClientSession(connector=BoundedConnector(), timeout=aiohttp.ClientTimeout(total=None))
    url = "http://{}:{}/".format(*listener.sockets[0].getsockname())
    async with listener, session, asyncio.timeout(10), session.get(url) as reply:
        assert await reply.content.read(5) == b"hello"
        read.set()
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.read()


async def test_answer_in_chunks_of_one_byte_is_read() -> None:
    body = b"1\r\nx\r\n" * 100_000 + b"0\r\n\r\n"
    async with (
        http_server(lambda _: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body) as server,
        aiohttp.ClientSession(connector=BoundedConnector()) as session,
        session.get(f"http://127.0.0.1:{server.port}/") as reply,
    ):
        assert await reply.read() == b"x" * 100_000


async def test_silence_after_an_informational_answer_ends_at_the_deadline_for_reads() -> None:
    session = aiohttp.ClientSession(
        connector=BoundedConnector(), timeout=aiohttp.ClientTimeout(total=None, sock_read=0.1)
    )
    quiet = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_HINTS)
        await quiet.wait()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener, session, asyncio.timeout(10):
        with pytest.raises(aiohttp.SocketTimeoutError):
            await session.get("http://{}:{}/".format(*listener.sockets[0].getsockname()))
        quiet.set()


async def test_second_answer_on_a_connection_is_bounded_afresh() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_HINTS * 5 + answer("200 OK", b"x" * 70_000))
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener, aiohttp.ClientSession(connector=BoundedConnector(limit=1)) as session, asyncio.timeout(10):
        for _ in range(3):
            async with session.get("http://{}:{}/".format(*listener.sockets[0].getsockname())) as reply:
                assert len(await reply.read()) == 70_000


async def test_broken_off_answer_over_tls_frees_its_connection_although_the_server_is_silent() -> None:
    done = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server_context().wrap_socket(listener.accept()[0], server_side=True) as connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
            done.wait()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        async with aiohttp.ClientSession(connector=BoundedConnector(ssl=False)) as session, asyncio.timeout(20):
            async with session.get("https://{}:{}/".format(*listener.getsockname())) as response:
                assert await response.content.readany() == b"x"
                connection = response.connection
                assert connection is not None and connection.protocol is not None
                closed = connection.protocol.closed
            assert closed is not None
            async with asyncio.timeout(5):
                await closed
    finally:
        done.set()
        thread.join()
        listener.close()
