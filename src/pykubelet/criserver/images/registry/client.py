"""The registry client: manifests and blobs from mirrors or the registry itself, with retries and resumption."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import new as new_hash
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Invalid, NotFound, Permanent, PykubeletError, Unsupported
from pykubelet.base.image_reference import Reference
from pykubelet.base.units import KIB, Seconds
from pykubelet.criserver.images import limits, manifests
from pykubelet.criserver.images.content import BadBlob
from pykubelet.criserver.images.image_interfaces import BlobSink
from pykubelet.criserver.images.image_types import AuthConfig, RegistryUnavailable, Unauthenticated, Unreachable
from pykubelet.criserver.images.manifests import Descriptor
from pykubelet.criserver.images.reference import is_digest
from pykubelet.criserver.images.registry.auth import (
    HostCredentials,
    TokenRequest,
    credentials_for,
    parse_challenges,
    token_requests,
)
from pykubelet.criserver.images.registry.bandwidth import SLOWEST, DownloadPace, PullBandwidth
from pykubelet.criserver.images.registry.blob_spool import BlobSpool
from pykubelet.criserver.images.registry.config import (
    Endpoint,
    HostConfig,
    check_host,
    endpoints,
    find_host,
    says_how,
    with_settings,
)
from pykubelet.criserver.images.registry.host_directories import HostDirectories
from pykubelet.criserver.images.registry.http import (
    Request,
    ServerTls,
    Wire,
    failure,
    load_server_tls,
    next_piece,
    open_wire,
    read_bounded,
    same_origin,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_ACCEPT = ", ".join((*manifests.MANIFESTS, *manifests.INDEXES))
_GENERIC = ("", "application/json", "text/plain", "application/octet-stream")
_MAY_GO_ELSEWHERE = (NotFound, Invalid, Permanent, RegistryUnavailable)
"""Errors after which the next server is tried; a full disk (Transient) is not one of them."""
_ATTEMPTS = 4
_FIRST_DELAY: Seconds = 0.5
_MAX_TOKEN = 256 * KIB
_TOKEN_UNKNOWN = (400, 401, 403, 404, 405, 501)
"""Statuses by which token services refuse the POST of OAuth 2: ACR, Artifactory, Harbor, GCR, the rules of HTTP."""
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]+/(?:[0-9]+|\*)")


class RegistryClient:
    """Opens repositories. ``hosts`` is called at each pull and returns the configuration of registry hosts.

    A registry that is not in it is looked up in ``directories`` (``host_directories``).
    """

    def __init__(
        self,
        *,
        hosts: Callable[[], Mapping[str, HostConfig]],
        directories: HostDirectories | None = None,
        bandwidth: PullBandwidth | None = None,
        clock: Clock,
    ) -> None:
        self._hosts = hosts
        self._directories = directories or HostDirectories(())
        self._bandwidth = bandwidth or PullBandwidth(0, clock)
        self._clock = clock

    @asynccontextmanager
    async def open(self, reference: Reference, auth: AuthConfig | None) -> "AsyncIterator[RemoteRepository]":
        """Open the repository of a reference for one pull. Raises Invalid for invalid credentials or settings."""
        check_host(reference.host)
        hosts = await blocking.call("registries", self._hosts)
        servers = []
        for endpoint in await self._endpoints(reference.host, hosts):
            credentials = credentials_for(auth, endpoint, reference.host, find_host(endpoint.host, hosts))
            tls = await blocking.call("registries", load_server_tls, endpoint.base, endpoint.tls)
            servers.append(_Access(endpoint, credentials, reference.path, tls, endpoint.authorization))
        async with open_wire() as wire:
            yield RemoteRepository(
                wire=wire, reference=reference, servers=servers, bandwidth=self._bandwidth, clock=self._clock
            )

    async def _endpoints(self, host: str, hosts: Mapping[str, HostConfig]) -> Sequence[Endpoint]:
        """The servers to try; what the configuration of hosts says of the registry precedes the directories."""
        if not says_how(find_host(host, hosts)):
            found = await blocking.call("registries", self._directories.find, host)
            if found:
                return [with_settings(each, find_host(each.host, hosts)) for each in found]
        return endpoints(host, hosts)


class _Access(Struct):
    """One server, and the state of the authentication at it."""

    endpoint: Endpoint
    credentials: HostCredentials
    path: str
    tls: ServerTls
    authorization: str = ""
    failed: bool = False
    """Whether it was unavailable in this pull; it is skipped then, unless it is the last."""

    def url(self, kind: str, name: str) -> str:
        namespace = f"?ns={self.endpoint.namespace}" if self.endpoint.namespace else ""
        return f"{self.endpoint.base}{self.endpoint.api}/{self.path}/{kind}/{name}{namespace}"

    def serves(self, target: str) -> bool:
        """Whether it may be asked for this tag or digest."""
        return self.endpoint.pulls if is_digest(target) else self.endpoint.resolves


def _for(server: _Access, request: Request) -> Request:
    """The request as the settings of its server want it."""
    return replace(request, further=server.endpoint.headers, connect=server.endpoint.connect, tls=server.tls)


class RemoteRepository:
    """A repository on one or more servers; if a server lacks an object or fails, the next one is tried."""

    def __init__(
        self, *, wire: Wire, reference: Reference, servers: list[_Access], bandwidth: PullBandwidth, clock: Clock
    ) -> None:
        self._wire = wire
        self._bandwidth = bandwidth
        self._reference = reference
        self.servers = servers
        """Mirrors, and the registry itself as the last."""
        self._clock = clock
        self._entering = asyncio.Lock()

    async def manifest(self, target: str, announced: str = "") -> tuple[bytes, str]:
        """Fetch a manifest or an index by tag or digest; returns it with its media type. A digest is checked.

        ``announced`` is its type in an index, for servers and documents that tell none.
        """
        what = str(self._reference) if target == self._reference.target else f"{self._reference.name}@{target}"

        async def get(server: _Access, attempts: int) -> tuple[bytes, str]:
            return await self._retrying(lambda: self._manifest(server, target, what, announced), attempts)

        return await self._first(target, get, self._serving(target))

    async def referrers(self, digest: str) -> tuple[bytes, str]:
        """Fetch the index of the manifests that refer to a digest; NotFound if nothing does.

        Of a registry without this API it is that of the fallback tag (OCI distribution 1.1, "Referrers Tag Schema").
        """
        what = f"referrers of {self._reference.name}@{digest}"

        async def get(server: _Access, attempts: int) -> tuple[bytes, str]:
            async def once() -> tuple[bytes, str]:
                async with self._ask(server, Request(server.url("referrers", digest)), what) as response:
                    return await read_bounded(response, limits.MAX_DOCUMENT, what), manifests.OCI_INDEX

            return await self._retrying(once, attempts)

        try:
            return await self._first(what, get, [each for each in self.servers if each.endpoint.refers])
        except NotFound:
            return await self.manifest(digest.replace(":", "-"))

    async def resolve(self, target: str) -> str:
        """Ask for the digest of a tag or digest without its content (HEAD); empty where no server tells it.

        Registries that limit pulls count GET requests of manifests only. Why no server told it, ``manifest`` says.
        """
        for server in self.servers:
            if not server.failed and server.serves(target):
                try:
                    return await self._head(server, target)
                except PykubeletError as error:
                    # A server that is there may serve by GET what it refuses by HEAD.
                    server.failed = isinstance(error, Unreachable)
                    _log.debug("HEAD of a manifest failed", extra={"server": server.endpoint.base, "error": str(error)})
        return ""

    async def blob(self, blob: Descriptor, sink: BlobSink, on_bytes: Callable[[int], None]) -> None:
        """Download a blob into the sink, from its offset on, check and commit it; ``on_bytes`` gets the size so far."""

        async def get(server: _Access, attempts: int) -> None:
            resumed = sink.offset > 0
            try:
                await self._download(server, blob, sink, on_bytes, attempts)
            except BadBlob:
                if not resumed:
                    raise
                # Perhaps only the partial file of an earlier attempt is wrong.
                await self._download(server, blob, sink, on_bytes, attempts)

        await self._first(blob.digest, get, self._serving(blob.digest))

    def _serving(self, target: str) -> list[_Access]:
        return [server for server in self.servers if server.serves(target)]

    async def _first(self, target: str, get: Callable[[_Access, int], Awaitable[_T]], able: Sequence[_Access]) -> _T:
        """Try each mirror of those that may be asked once, and then the registry itself with retries."""
        if not able:
            raise Permanent(f"{self._reference}: no server of its registry may be asked for {target} (see hosts.toml)")
        for server in able[:-1]:
            if server.failed:
                continue
            try:
                return await get(server, 1)
            except _MAY_GO_ELSEWHERE as error:
                server.failed = isinstance(error, RegistryUnavailable)
                _log.warning(
                    "registry mirror failed: trying the next server",
                    extra={"mirror": server.endpoint.base, "image": str(self._reference), "error": str(error)},
                )
        return await get(able[-1], _ATTEMPTS)

    async def _retrying(self, work: Callable[[], Awaitable[_T]], attempts: int) -> _T:
        delay = _FIRST_DELAY
        for _ in range(attempts - 1):
            try:
                return await work()
            except RegistryUnavailable as error:
                await self._clock.sleep(max(delay, error.retry_after or 0.0))
                delay *= 2
        return await work()

    async def _head(self, server: _Access, target: str) -> str:
        """The digest that a server names for a manifest. Raises Permanent if it names none."""
        what = f"HEAD of {self._reference}"
        request = Request(server.url("manifests", target), "HEAD", {"Accept": _ACCEPT})
        async with self._ask(server, request, what) as response:
            digest = response.headers.get("Docker-Content-Digest", "")
        if not is_digest(digest):
            raise Permanent(f"{what}: {server.endpoint.host} names no digest")
        return digest

    async def _manifest(self, server: _Access, target: str, what: str, announced: str) -> tuple[bytes, str]:
        request = Request(server.url("manifests", target), headers={"Accept": _ACCEPT})
        async with self._ask(server, request, what) as response:
            data = await read_bounded(response, limits.MAX_DOCUMENT, what)
            said = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            promised = response.headers.get("Docker-Content-Digest", "")
        digest = target if is_digest(target) else promised
        if is_digest(digest):
            algorithm = digest.partition(":")[0]
            found = f"{algorithm}:{new_hash(algorithm, data).hexdigest()}"
            if found != digest:
                raise Invalid(f"{what}: {server.endpoint.host} sent {found} instead of {digest}")
        media_type = manifests.media_type_of(data, announced) if said in _GENERIC else said
        if media_type in manifests.OUTDATED:
            raise Unsupported(
                f"{what} is stored at {server.endpoint.host} with manifest schema 1, which is not supported any more; "
                "push it again with a newer program"
            )
        if media_type not in (*manifests.MANIFESTS, *manifests.INDEXES):
            raise Invalid(
                f"{what}: {server.endpoint.host} sent {media_type or 'no media type'!r}, which is not an image manifest"
            )
        return data, media_type

    async def _download(
        self, server: _Access, blob: Descriptor, sink: BlobSink, on_bytes: Callable[[int], None], attempts: int
    ) -> None:
        """Download the whole blob, and resume it after each interruption as long as each attempt brings enough of it.

        What is too little counts as nothing: a server that ended each answer after a byte would hold the blob for ever.
        So would one without ranges, which sends all from the beginning, if less than in another attempt counted.
        """
        failures, farthest = 0, sink.offset
        delay = _FIRST_DELAY
        while sink.offset < blob.size:
            try:
                await self._piece(server, blob, sink, on_bytes)
                if sink.offset < blob.size:
                    raise RegistryUnavailable(
                        f"blob {blob.digest}: the connection ended after {sink.offset} of {blob.size} bytes"
                    )
            except RegistryUnavailable as error:
                failures = failures + 1 if sink.offset < farthest + SLOWEST else 0
                farthest = max(farthest, sink.offset)
                if failures >= attempts:
                    raise
                delay = delay * 2 if failures else _FIRST_DELAY
                await self._clock.sleep(max(delay, error.retry_after or 0.0))
        await blocking.call_to_end(self._owner(blob), sink.commit, deadline=None)

    async def _piece(self, server: _Access, blob: Descriptor, sink: BlobSink, on_bytes: Callable[[int], None]) -> None:
        what = f"blob {blob.digest} of {self._reference.name}"
        headers = {"Range": f"bytes={sink.offset}-"} if sink.offset else {}
        request = Request(server.url("blobs", blob.digest), headers=headers)
        async with self._ask(server, request, what) as response:
            start = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if response.status != 206 or start is None or int(start[1]) != sink.offset:
                if response.status != 200:
                    raise Permanent(f"{what}: {server.endpoint.host} sent another range than requested")
                await blocking.call_to_end(self._owner(blob), sink.restart, deadline=None)
            spool, pace = BlobSpool(sink, self._owner(blob)), DownloadPace(self._clock)
            try:
                while chunk := await next_piece(response):
                    pace.check(len(chunk), what)
                    pace.excuse(await self._bandwidth.take(len(chunk)))
                    await spool.add(chunk)
                    on_bytes(spool.offset)
            finally:
                await spool.close()

    def _owner(self, blob: Descriptor) -> str:
        """The owner of blocking calls for a blob: another registry may be sending the same one, and be slow."""
        return f"blob/{blob.digest}/{self._reference.host}"

    @asynccontextmanager
    async def _ask(self, server: _Access, request: Request, what: str) -> "AsyncIterator[ClientResponse]":
        """Send a request, authenticate if necessary, and yield the successful response."""
        used, request = server.authorization, _for(server, request)
        async with self._wire.send(replace(request, authorization=used)) as response:
            if response.status in (200, 206):
                yield response
                return
            challenges = response.headers.getall("WWW-Authenticate", [])
            # After a redirect, the challenge is another server's, which must not get credentials (CVE-2020-15157).
            if response.status != 401 or not challenges or not same_origin(str(response.url), request.url):
                raise await failure(response, what)
        await self._enter(server, challenges, used, what)
        async with self._wire.send(replace(request, authorization=server.authorization)) as response:
            if response.status not in (200, 206):
                raise await failure(response, what)
            yield response

    async def _enter(self, server: _Access, headers: list[str], used: str, what: str) -> None:
        """Authenticate by one of the challenges. Raises Unauthenticated if none can be met."""
        async with self._entering:
            if server.authorization != used:
                return  # the request of another layer has authenticated meanwhile
            credentials = server.credentials
            if credentials.registry_token and not used:
                server.authorization = f"Bearer {credentials.registry_token}"
                return
            for challenge in parse_challenges(headers):
                if challenge.scheme == "bearer":
                    asked = token_requests(challenge, credentials, server.endpoint, server.path)
                    token = await self._token(server, asked, what)
                    server.authorization = f"Bearer {token}"
                    return
                if challenge.scheme == "basic" and credentials.basic and credentials.basic != used:
                    server.authorization = credentials.basic
                    return
        raise Unauthenticated(f"{what}: {server.endpoint.host} requires credentials, and they are missing or wrong")

    async def _token(self, server: _Access, requests: Sequence[TokenRequest], what: str) -> str:
        """Ask for a token; where a service does not know a request (``_TOKEN_UNKNOWN``), by the next one."""
        for number, asked in enumerate(requests, 1):
            request = Request(asked.url, asked.method, {}, asked.authorization, asked.form or None)
            request = _for(server, request) if same_origin(asked.url, server.endpoint.base) else request
            request = replace(request, tls=server.tls)
            async with self._wire.send(request) as response:
                if response.status in _TOKEN_UNKNOWN and number < len(requests):
                    continue
                if response.status != 200:
                    raise await failure(response, f"token for {what}")
                data = await read_bounded(response, _MAX_TOKEN, f"token for {what}")
                break
        try:
            answer = json.loads(data)
            token = answer.get("token") or answer.get("access_token")
        except (ValueError, AttributeError, RecursionError) as error:
            raise Permanent(f"token for {what}: the answer is not JSON") from error
        if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
            raise Permanent(f"token for {what}: the answer has no valid token")
        return token
