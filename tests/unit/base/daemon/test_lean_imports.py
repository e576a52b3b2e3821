"""The imports of the daemons neither collect garbage nor load certificate authorities."""

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from pykubelet.testing.certificates import Authority

_CODE = """
import contextlib, gc, os, ssl
from pykubelet.base.daemon.lean_imports import lean_imports

with contextlib.suppress(ValueError), lean_imports():
    from aiohttp import connector
    enabled = gc.isenabled()
    {then}
contexts = (connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED, ssl.create_default_context())
print(enabled, gc.isenabled(), gc.get_freeze_count() > 0, *(context.cert_store_stats()["x509"] for context in contexts))
print(os.environ["SSL_CERT_FILE"], os.environ.get("SSL_CERT_DIR"))
"""

_CLIENTS = """
import asyncio, os, sys
from pykubelet.base.daemon.lean_imports import lean_imports

with lean_imports():
    from pykubelet.apiclient import ApiClient, ClusterConfig
    from pykubelet.apiclient.resources import CONFIG_MAPS
    from pykubelet.base.clock import SystemClock
    from pykubelet.criserver.images.registry.http import Request, open_wire
    from pykubelet.kubelet.desired.sources.http_fetch import AiohttpFetch

async def manifests(url):
    fetch = AiohttpFetch()
    try:
        return (await fetch.get(url, (), 60)).status
    finally:
        await fetch.close()

async def registry(url):
    async with open_wire() as wire, wire.send(Request(url)) as response:
        return response.status

async def api(url):
    client = ApiClient(ClusterConfig(url), SystemClock())
    try:
        return (await client.get(CONFIG_MAPS.at("default", "x"))).metadata.name
    finally:
        await client.close()

async def main(server):
    print(await manifests(server), await registry(server), await api(server))
    os.environ["HTTP_PROXY"] = server
    print(await registry("http://behind.test/v2/"), await api("http://behind.test"))

asyncio.run(main(sys.argv[1]))
"""
"""Asks a server with TLS by each kind of client, then other ones through it as their proxy."""


@asynccontextmanager
async def tls_server(authority: Authority) -> AsyncIterator[str]:
    """A server that answers everything; yields its URL."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}})

    issued = authority.issue("server", ["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_clients_accept_servers_and_proxies_by_the_authorities_of_the_machine(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    async with tls_server(authority) as url:
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _CLIENTS, url),
            env={**environment, "SSL_CERT_FILE": str(authority.ca)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await client.communicate()
    assert output.decode().splitlines() == ["200 200 x", "200 x"], errors.decode()


@pytest.mark.parametrize("then", ["pass", "raise ValueError"])
def test_neither_garbage_nor_authorities_cost_time(tmp_path: Path, then: str) -> None:
    authority = Authority(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(then=then)],
        env={**environment, "SSL_CERT_FILE": str(authority.ca)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    # Afterwards the machine's authorities count, as for a client's own context.
    assert done.stdout.splitlines() == ["False True True 0 0 1", f"{authority.ca} None"], done.stderr
