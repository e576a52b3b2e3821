"""A small registry on loopback that does what a test tells it, faults included."""

import asyncio
import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from pykubelet.criserver.images import manifests

_SMALL = 65536
"""Configurations are smaller, layers of tests that are cut off larger."""


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


async def _without_end(pause: float) -> AsyncIterator[bytes]:
    while True:
        await asyncio.sleep(pause)
        yield b"a" * 65536


@dataclass
class FakeRegistry:
    """Its content, its faults, and what it was asked. ``host`` is known once it runs."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    referrers: dict[str, bytes] = field(default_factory=dict)
    """Indexes of referrers by ``repository:digest``."""
    host: str = ""
    basic: str = ""
    """``user:password`` that is wanted, directly."""
    token: str = ""
    """The bearer token that is wanted; ``token_user`` gets it at ``realm``."""
    token_user: str = ""
    realm: str = ""
    challenge_scope: str = ',scope="repository:x:pull"'
    """The end of the challenge for tokens."""
    wanted_scope: str = ""
    """The token service issues tokens for this scope only, if it is set."""
    cut: int = 0
    """Ends each blob's answer after this many bytes."""
    cuts: list[int] = field(default_factory=list)
    """Ends the next answers with layers after so many bytes, before ``cut`` counts."""
    endless: str = ""
    """Part of the paths that are answered without an end, if any."""
    fails: str = ""
    """Part of the paths that are answered with 503, if any."""
    endless_status: int = 200
    endless_pause: float = 0.0
    """Seconds between the parts of such an answer."""
    pause: asyncio.Event | None = None
    """Each blob's answer waits for it, half-way."""
    halfway: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first one waits."""
    delay: dict[str, float] = field(default_factory=dict)
    """Seconds that blobs take."""
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    """Events that the answers with blobs wait for."""
    most: int = 0
    """Highest number of layers that were requested at a time."""
    ranges: bool = True
    shift: int = 0
    """Bytes by which what it sends begins after what was asked for."""
    failures: list[int] = field(default_factory=list)
    failure_headers: dict[str, str] = field(default_factory=lambda: {"Retry-After": "7"})
    """Statuses to answer before behaving."""
    redirect: Callable[[str], str] | None = None
    _running: int = 0
    tells_digest: bool = True
    """Answers for manifests have Docker-Content-Digest."""
    head_status: int = 200
    """Status of the answers to HEAD requests for manifests."""
    most_gets: int = 0
    """GET requests of manifests after which 429 is answered, if any."""
    exact_types: bool = False
    """Manifests are unknown to clients that do not accept their media type by name."""
    compresses: bool = False
    """Compresses answers for clients that do not ask for the plain ones."""
    storage_refuses_credentials: bool = False
    """Requests to ``/elsewhere`` with an Authorization header, and by HEAD, are refused."""
    manifest_methods: list[str] = field(default_factory=list)
    """The methods of all requests for manifests."""
    old_tokens: int = 0
    """The status that POST requests for tokens get, if any: the token service knows GET only."""
    teams: set[str] = field(default_factory=set)
    """The values of the header X-Team."""
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    """Method and path, Authorization header, Range header."""

    def add_image(self, name: str, layers: list[bytes], diff_ids: list[str], **config: object) -> str:
        """Add an image under ``repository:tag``; returns the manifest's digest."""
        return self.add_manifest(name, *self.make_image(layers, diff_ids, **config))

    def make_image(self, layers: list[bytes], diff_ids: list[str], **config: object) -> tuple[str, bytes]:
        document = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        described = [self.descriptor(manifests.OCI_LAYER, layer) for layer in layers]
        body = {
            "schemaVersion": 2,
            "mediaType": manifests.OCI_MANIFEST,
            "config": self.descriptor(manifests.OCI_CONFIG, json.dumps(document | {"config": config}).encode()),
            "layers": described,
        }
        return manifests.OCI_MANIFEST, json.dumps(body).encode()

    def add_manifest(self, name: str, media_type: str, data: bytes) -> str:
        repository = name.partition(":")[0]
        for target in (name.partition(":")[2], digest(data)):
            self.manifests[f"{repository}:{target}"] = (media_type, data)
        return digest(data)

    def descriptor(self, media_type: str, data: bytes) -> dict[str, object]:
        self.blobs[digest(data)] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    @asynccontextmanager
    async def run(self) -> "AsyncIterator[FakeRegistry]":
        app = web.Application()
        for path in ("/token", "/artifactory/api/docker/hub/v2/token"):
            app.router.add_get(path, self._token)
            app.router.add_post(path, self._token)
        app.router.add_get("/{prefix:v2|hub/proxy}/{repository:.+}/manifests/{target}", self._manifest)
        app.router.add_get("/{prefix:v2|hub/proxy}/{repository:.+}/blobs/{target}", self._blob)
        app.router.add_get("/v2/{repository:.+}/referrers/{target}", self._referrers)
        app.router.add_get("/elsewhere/{target}", self._elsewhere)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        (port,) = {address[1] for address in runner.addresses}
        self.host = f"127.0.0.1:{port}"
        self.realm = self.realm or f"http://{self.host}/token"
        try:
            yield self
        finally:
            await runner.cleanup()

    def _note(self, request: web.Request) -> None:
        headers = request.headers
        self.teams.add(headers.get("X-Team", ""))
        self.seen.append((request.raw_path, headers.get("Authorization", ""), headers.get("Range", "")))

    def _refusal(self, request: web.Request) -> web.Response | None:
        self._note(request)
        if self.endless and self.endless in request.path:
            return web.Response(body=_without_end(self.endless_pause), status=self.endless_status)
        if self.fails and self.fails in request.path:
            return web.Response(status=503)
        if self.failures:
            return web.Response(status=self.failures.pop(0), headers=self.failure_headers)
        given = request.headers.get("Authorization", "")
        if self.basic and given != "Basic " + base64.b64encode(self.basic.encode()).decode():
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="here"'})
        if self.token and given != f"Bearer {self.token}":
            challenge = f'Bearer realm="{self.realm}",service="fake"{self.challenge_scope}'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        return None

    async def _token(self, request: web.Request) -> web.Response:
        self._note(request)
        if self.endless and self.endless in request.path:
            return web.Response(body=_without_end(self.endless_pause))
        given = request.headers.get("Authorization", "")
        if self.wanted_scope and self.wanted_scope not in request.query.getall("scope", []):
            return web.Response(status=401)
        if request.method == "POST" and self.old_tokens:
            return web.Response(status=self.old_tokens)
        if request.method == "POST":
            given = str((await request.post()).get("refresh_token", ""))
        elif given:
            given = base64.b64decode(given.removeprefix("Basic ")).decode()
        if given != self.token_user:
            return web.Response(status=401)
        return web.json_response({"token": self.token})

    async def _manifest(self, request: web.Request) -> web.Response:
        self.manifest_methods.append(request.method)
        if request.method == "HEAD" and self.head_status != 200:
            return web.Response(status=self.head_status)
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        key = f"{request.match_info['repository']}:{request.match_info['target']}"
        if key not in self.manifests:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such"}]}, status=404)
        media_type, data = self.manifests[key]
        if self.exact_types and media_type not in request.headers.get("Accept", ""):
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "not accepted"}]}, status=404)
        if self.most_gets and self.manifest_methods.count("GET") > self.most_gets:
            return web.json_response({"errors": [{"code": "TOOMANYREQUESTS", "message": "limit"}]}, status=429)
        reported = {"Docker-Content-Digest": digest(data)} if self.tells_digest else {}
        answer = web.Response(body=data, headers={"Content-Type": media_type, **reported})
        self._compress(request, answer)
        return answer

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        if self.redirect is not None:
            return web.Response(status=307, headers={"Location": self.redirect(request.match_info["target"])})
        return await self._send(request)

    async def _referrers(self, request: web.Request) -> web.StreamResponse:
        refusal = self._refusal(request)
        if refusal is not None:
            return refusal
        found = self.referrers.get(f"{request.match_info['repository']}:{request.match_info['target']}")
        return web.Response(status=404) if found is None else web.Response(body=found, content_type=manifests.OCI_INDEX)

    def _compress(self, request: web.Request, answer: web.StreamResponse) -> None:
        if self.compresses and request.headers.get("Accept-Encoding", "") != "identity":
            answer.enable_compression(web.ContentCoding.gzip)

    async def _elsewhere(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        if self.storage_refuses_credentials and ("Authorization" in request.headers or request.method == "HEAD"):
            return web.Response(status=400, text="Only one auth mechanism allowed")
        return await self._send(request)

    async def _send(self, request: web.Request) -> web.StreamResponse:
        data = self.blobs.get(request.match_info["target"])
        if data is None:
            return web.Response(status=404)
        start = request.http_range.start or 0 if self.ranges else 0
        start += self.shift if start else 0
        part = data[start:]
        cut = self.cuts.pop(0) if self.cuts and len(data) > _SMALL else self.cut
        headers = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        response = web.StreamResponse(status=206 if start else 200, headers=headers)
        response.content_length = len(part)
        self._compress(request, response)
        await response.prepare(request)
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await asyncio.sleep(self.delay.get(request.match_info["target"], 0))
            if gate := self.gates.get(request.match_info["target"]):
                await gate.wait()
            if self.pause is not None:
                await response.write(part[: len(part) // 2])
                part = part[len(part) // 2 :]
                self.halfway.set()
                await self.pause.wait()
            await response.write(part[:cut] if cut else part)
        finally:
            self._running -= 1
        if cut and len(part) > cut:
            assert request.transport is not None
            await asyncio.sleep(0)
            request.transport.close()
        return response
