"""One HTTP request over a connected socket, and its answer.

Only what the agent's local API needs: no redirects, no compression, no reuse of connections. The library's client
takes longer to import (e-mail headers, TLS) than most commands run.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import Final

_MAX_LINE: Final = 65536
_MAX_HEADERS: Final = 100


class BadAnswer(Exception):  # noqa: N818 - it says what happened
    """The other side does not speak HTTP, or ended in the middle of its answer."""


@contextmanager
def answered(connection: socket.socket, method: str, target: str, body: bytes = b"") -> Iterator["Answer"]:
    """Send a request and yield its answer. BadAnswer, OSError (TimeoutError: the socket's own limit)."""
    head = [
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        "Accept: application/json",
        "Connection: close",
        *(["Content-Type: application/json"] if body else []),
        *([f"Content-Length: {len(body)}"] if method != "GET" else []),
    ]
    try:
        connection.sendall("\r\n".join((*head, "", "")).encode() + body)
    except BrokenPipeError:
        pass  # it may have answered before it has read everything
    with connection.makefile("rb") as file:
        yield Answer(file)


class Answer:
    """An answer, whose body is read as a whole or by lines."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self.status = self._read_status()
        self._chunked = False
        self._left: int | None = None
        """Bytes left of the body, or of its present chunk; None: until the connection ends."""
        self._read_headers()
        self._ended = False

    def read(self) -> bytes:
        """Return the rest of the body. BadAnswer, OSError."""
        pieces = []
        while piece := self._some(None):
            pieces.append(piece)
        return b"".join(pieces)

    def readline(self) -> bytes:
        """Return the next line of the body with its line feed, if it has one; empty at the end. BadAnswer, OSError."""
        pieces = []
        while piece := self._some(-1):
            pieces.append(piece)
            if piece.endswith(b"\n"):
                break
        return b"".join(pieces)

    def _some(self, line: int | None) -> bytes:
        """Return bytes of the body, with ``line`` at most to the end of the line; empty at the end of the body."""
        if self._chunked and not self._left:
            self._next_chunk()
        if self._left == 0 or self._ended:
            return b""
        limit = -1 if self._left is None else self._left
        piece = self._file.read(limit) if line is None else self._file.readline(limit)
        if self._left is not None:
            if not piece:
                raise BadAnswer("the answer ended early")
            self._left -= len(piece)
            if self._chunked and self._left == 0:
                self._file.readline(_MAX_LINE)
        return piece

    def _next_chunk(self) -> None:
        if self._ended:
            return
        line = self._file.readline(_MAX_LINE)
        try:
            self._left = int(line.partition(b";")[0], 16)
        except ValueError as error:
            raise BadAnswer("the answer ended early") from error
        self._ended = self._left == 0

    def _read_status(self) -> int:
        line = self._file.readline(_MAX_LINE)
        version, _, rest = line.partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
            raise BadAnswer(f"no HTTP answer: {line[:80]!r}")
        return int(rest[:3])

    def _read_headers(self) -> None:
        for _ in range(_MAX_HEADERS):
            line = self._file.readline(_MAX_LINE)
            if line in (b"\r\n", b"\n"):
                return
            name, colon, value = line.partition(b":")
            if not colon:
                raise BadAnswer("it ended in its headers")
            match name.strip().lower():
                case b"transfer-encoding":
                    self._chunked = b"chunked" in value.lower()
                case b"content-length" if value.strip().isdigit():
                    self._left = int(value)
        raise BadAnswer("it has too many headers")
