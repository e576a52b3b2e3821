"""An HTTP server of a few lines that answers exactly the bytes a test wants."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from pykubelet.testing.free_ports import free_port

# A key for tests only: no client trusts it.
_PEM = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJYGnG95K0M8LQjrm
qnEYXwHOXUqS3RZ/AulJ/GZ+SuqhRANCAASZthwWyqJIHoxpJZZe823k0R5WnKC1
AK18meFwqr0oQrJAyeFfJ7hpDTINRVC0MOtoPmZBxVgwU3A5fi/RAMRI
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUIHFaJdqEp2OYmPi1cJbh1zMm5RAwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjEwNDQwMzNaGA8yMTI2MTAyODA0NDAz
M1owDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJm2
HBbKokgejGklll7zbeTRHlacoLUArXyZ4XCqvShCskDJ4V8nuGkNMg1FULQw62g+
ZkHFWDBTcDl+L9EAxEijUzBRMB0GA1UdDgQWBBSjHMBgXdSSQcFzGzumJ/AzMGJG
dTAfBgNVHSMEGDAWgBSjHMBgXdSSQcFzGzumJ/AzMGJGdTAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQDQzlQnFRNXmXyK7dFzmtMhTeyVEc7r7rTm
Szs97WBlEAIhAPzKZr6nOfx3/sJT9WHMoprEFyFF+Eh2R9r90qtEm/3D
-----END CERTIFICATE-----
"""


@dataclass
class HttpServer:
    """An HTTP server of a test: its port, and the requests that it has received."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    """Request line and headers of each request, lines ended by LF."""
    sent: int = 0
    """Bytes written so far."""

    @property
    def lines(self) -> list[str]:
        """The request lines without the version."""
        return [r.partition(" HTTP/")[0] for r in self.requests]

    def headers(self, index: int = 0) -> dict[str, str]:
        """The headers of a request, names in lower case."""
        rows = (line.split(": ", 1) for line in self.requests[index].splitlines()[1:])
        return {name.lower(): value for name, value in rows}


def answer(status: str = "200 OK", body: bytes = b"", *headers: str) -> bytes:
    """A whole response."""
    lines = (f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(lines).encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return answer(status, b"", f"Location: {location}")


@asynccontextmanager
async def http_server(
    reply: Callable[[str], bytes | None], *, tls: bool = False, endless: bytes = b""
) -> AsyncIterator[HttpServer]:
    """Serve on a free port of 127.0.0.1. `reply` gets the path; None means no answer at all, ever.

    `endless` is sent again and again after the reply, until the client has gone.
    """
    server = HttpServer()
    stopped = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().replace("\r\n", "\n").strip()
            server.requests.append(head)
            data = reply(head.split(" ")[1])
            if data is None:
                await stopped.wait()
            writer.write(data or b"")
            while endless and not stopped.is_set():
                writer.write(endless)
                server.sent += len(endless)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context() if tls else None)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        stopped.set()
        listener.close()
        await listener.wait_closed()
        await asyncio.sleep(0)


def server_context() -> ssl.SSLContext:
    """A TLS context whose certificate no client trusts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with TemporaryDirectory() as directory:
        path = Path(directory) / "server.pem"
        path.write_text(_PEM)
        context.load_cert_chain(path)
    return context


def closed_port() -> int:
    """A port of 127.0.0.1 on which no process listens.

    It is not ephemeral: the kernel could give such a port to another process, or to the connection to it itself.
    """
    return free_port()
