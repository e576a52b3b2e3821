"""Answers of the local API, as its client reads them: whole, in chunks, and cut off."""

import socket

import pytest

from pykubelet.cli.client.http_exchange import BadAnswer, answered

_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


def _read(answer: bytes, *, lines: bool = False, body: bytes = b"") -> tuple[int, list[bytes], bytes]:
    """Return status, body (or lines) and request of an exchange with a program that answers with these bytes."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(answer)
        there.shutdown(socket.SHUT_WR)
        with answered(here, "POST" if body else "GET", "/a", body) as read:
            found = list(iter(read.readline, b"")) if lines else [read.read()]
        return read.status, found, there.recv(65536)


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (_OK + b"\r\nup to the end", b"up to the end"),
        (_OK + b"Content-Length: 4\r\n\r\nfourmore", b"four"),
        (_OK + b"content-length: 0\r\n\r\n", b""),
        (_CHUNKED + b"3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\n", b"abcdefg"),
    ],
)
def test_body_is_read_as_its_headers_say(answer: bytes, found: bytes) -> None:
    assert _read(answer)[:2] == (200, [found])


def test_lines_are_those_of_the_body_and_not_of_its_chunks() -> None:
    answer = _CHUNKED + b"2\r\none\r\n".replace(b"one", b"on") + b"6\r\ne\ntwo\n\r\n5\r\nthree\r\n0\r\n\r\n"
    assert _read(answer, lines=True)[1] == [b"one\n", b"two\n", b"three"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200",
        _OK + b"Content-Type: text/plain\r\n",
        _OK + b"X: y\r\n" * 200,
        _OK + b"Content-Length: 9\r\n\r\nshort",
        _CHUNKED + b"9\r\nshort",
        _CHUNKED + b"3\r\nabc\r\n",
        _CHUNKED + b"no number\r\n",
    ],
)
def test_answer_that_breaks_off_or_is_no_http_is_an_error(answer: bytes) -> None:
    with pytest.raises(BadAnswer):
        _read(answer)


def test_request_has_its_body_and_length() -> None:
    _, _, sent = _read(_OK + b"\r\n", body=b"{}")
    assert sent.startswith(b"POST /a HTTP/1.1\r\nHost: localhost\r\n")
    assert b"\r\nContent-Length: 2\r\n" in sent
    assert sent.endswith(b"\r\n\r\n{}")
