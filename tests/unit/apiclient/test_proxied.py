"""Requests to the API server through a proxy: a process of its own that forwards CONNECT."""

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pykubelet.apiclient import ApiClient, ClusterConfig
from pykubelet.apiclient.kubeconfig import Pem
from pykubelet.apiclient.resources import CONFIG_MAPS
from pykubelet.base.clock import SystemClock
from pykubelet.base.errors import Transient
from pykubelet.testing.cluster_ca import ClusterAuthority

# Prints its port, then each request; connects every CONNECT to the given port of this machine.
_PROXY = """
import socket, sys, threading
target = int(sys.argv[1])
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def pump(one, other):
    while data := one.recv(65536):
        other.sendall(data)
    other.shutdown(socket.SHUT_WR)
def serve(client):
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += client.recv(4096)
    print(head.split(b"\\r\\n")[0].decode(), flush=True)
    server = socket.create_connection(("127.0.0.1", target))
    client.sendall(b"HTTP/1.1 200 Connection established\\r\\n\\r\\n")
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)
while True:
    client, _ = listener.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"""


async def _answer(request: web.Request) -> web.Response:
    return web.json_response({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}})


@asynccontextmanager
async def api_server(authority: ClusterAuthority, home: Path) -> AsyncIterator[int]:
    """A server of the name ``api.test``, which no name service knows; yields its port."""
    key, certificate = authority.server(["api.test"])
    (home / "server.pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(home / "server.pem")
    app = web.Application()
    app.router.add_get("/{path:.*}", _answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def test_an_api_server_behind_a_proxy_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = ClusterAuthority.make("test")
    for name in ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with api_server(authority, tmp_path) as port:
        proxy = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROXY, str(port), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert proxy.stdout is not None
            listening = (await proxy.stdout.readline()).decode().strip()
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listening}")
            config = ClusterConfig("https://api.test:6443", ca=Pem(authority.certificate_pem))
            client = ApiClient(config, SystemClock())
            assert (await client.get(CONFIG_MAPS.at("default", "x"))).metadata.name == "x"
            await client.close()
            assert await proxy.stdout.readline() == b"CONNECT api.test:6443 HTTP/1.1\n"
            monkeypatch.setenv("NO_PROXY", "10.0.0.0/8,.test")
            client = ApiClient(config, SystemClock())
            with pytest.raises(Transient, match=r"cannot connect to https://api\.test:6443"):
                await client.get(CONFIG_MAPS.at("default", "x"))
            await client.close()
        finally:
            proxy.kill()
            await proxy.wait()


async def test_a_proxy_with_tls_is_verified_for_an_api_server_without_tls(tmp_path: Path) -> None:
    async with api_server(ClusterAuthority.make("unknown"), tmp_path) as port:
        client = ApiClient(ClusterConfig("http://api.test", proxy_url=f"https://127.0.0.1:{port}"), SystemClock())
        with pytest.raises(Transient, match="certificate verify failed"):
            await client.get(CONFIG_MAPS.at("default", "x"))
        await client.close()
