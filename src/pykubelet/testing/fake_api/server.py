"""The fake API server's HTTP side: paths, verbs, subresources, watches."""

import asyncio
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from pykubelet.apiclient import ClusterConfig
from pykubelet.testing.fake_api.discovery import discovery
from pykubelet.testing.fake_api.faults import Fault
from pykubelet.testing.fake_api.patches import merge_patch, strategic_patch
from pykubelet.testing.fake_api.store import KINDS, Json, Place, RefusedError, Store

_BOOKMARK_EVERY = 0.4
_PATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": merge_patch,
    "application/strategic-merge-patch+json": strategic_patch,
}


class FakeApi:
    """A fake API server that listens on loopback within ``async with``."""

    def __init__(self, token: str = "") -> None:
        self.store = Store()
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        """``METHOD PATH?QUERY`` of every request."""
        self.peers: set[tuple[str, int]] = set()
        """Source addresses of requests: one for each connection."""
        self.token = token
        """If set, the only bearer token that is accepted."""
        self._watching: set[asyncio.BaseTransport] = set()
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def config(self) -> ClusterConfig:
        """The client configuration for this server."""
        return ClusterConfig(f"http://127.0.0.1:{self._port}")

    async def __aenter__(self) -> "FakeApi":
        app = web.Application(client_max_size=8 << 20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def go_away(self) -> None:
        """Stop listening and close all connections. :meth:`serve_again` listens on the same port again."""
        await self.__aexit__()
        self._runner = None

    async def serve_again(self) -> None:
        """Listen again on the same port; all objects are kept."""
        await self.__aenter__()

    def break_watches(self) -> None:
        """Break the connections of all current watches."""
        for transport in tuple(self._watching):
            assert isinstance(transport, asyncio.WriteTransport)
            transport.abort()

    def count(self, start: str) -> int:
        """Number of requests that began with this text."""
        return sum(request.startswith(start) for request in self.requests)

    async def _listen(self) -> None:
        assert self._runner is not None
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        line = f"{request.method} {request.path_qs}"
        self.requests.append(line)
        if request.transport is not None:
            self.peers.add(request.transport.get_extra_info("peername"))
        fault = next((each for each in self.faults if each.applies(line)), None)
        if fault is not None:
            if fault.delay:
                await asyncio.sleep(fault.delay)
            if fault.drop:
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            if fault.status:
                headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after is not None else {}
                return _status(fault.status, "Fault", fault.message, headers)
            if fault.answer is not None:
                return web.Response(body=fault.answer, content_type="application/json")
        try:
            if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
                raise RefusedError(401, "Unauthorized", "Unauthorized")
            return await self._serve(request, fault)
        except RefusedError as refused:
            return _status(refused.code, refused.reason, str(refused))

    async def _serve(self, request: web.Request, fault: Fault | None) -> web.StreamResponse:
        if request.path == "/readyz":
            return web.Response(text="ok")
        if (found := discovery(request.path, KINDS)) is not None:
            return web.json_response(found)
        place, subresource = _parse(request.path)
        body = await request.read()
        if request.method == "GET":
            if place.name:
                return web.json_response(self.store.get(place))
            if request.query.get("watch") == "true":
                if request.query.get("sendInitialEvents") == "true":
                    raise RefusedError(422, "Invalid", "sendInitialEvents: Forbidden: this server streams no lists")
                return await self._watch(request, place, fault)
            return self._list(request, place, fault)
        if request.method == "DELETE":
            options = json.loads(body or b"{}")
            uid = options.get("preconditions", {}).get("uid", "")
            return web.json_response(self.store.delete(place, uid, options.get("gracePeriodSeconds")))
        if request.method == "POST":
            return web.json_response(self._post(place, subresource, json.loads(body)), status=201)
        if request.method == "PUT":
            return web.json_response(self.store.replace(place, self._limited(place, subresource, json.loads(body))))
        if request.method == "PATCH":
            apply = _PATCHES.get(request.content_type)
            if apply is None:
                raise RefusedError(415, "UnsupportedMediaType", f"no patches of type {request.content_type}")
            changed = apply(self.store.get(place), json.loads(body))
            return web.json_response(self.store.replace(place, self._limited(place, subresource, changed)))
        raise RefusedError(405, "MethodNotAllowed", f"no {request.method} here")

    def _limited(self, place: Place, subresource: str, value: Json) -> Json:
        """Limit an update to its part: ``status`` changes status, labels and annotations, an update of the object
        everything but the status."""
        old = self.store.get(place)
        if subresource == "status":
            meta = {**old["metadata"]}
            given, taken = value.get("metadata", {}), ("uid", "resourceVersion", "labels", "annotations")
            meta.update({name: given[name] for name in taken if name in given})
            return {**old, "metadata": meta, "status": value.get("status", {})}
        if "status" in old and place.plural in ("pods", "nodes"):
            return {**value, "status": old["status"]}
        return value

    def _post(self, place: Place, subresource: str, value: Json) -> Json:
        if place.plural == "tokenreviews":
            return {**value, "status": {"authenticated": False}}
        if place.plural == "subjectaccessreviews":
            return {**value, "status": {"allowed": False}}
        if subresource == "token":
            self.store.get(place)
            life = value.get("spec", {}).get("expirationSeconds", 3600)
            end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + life))
            token = f"token-{place.name}-{self.store.version}-{len(self.requests)}"
            return {**value, "kind": "TokenRequest", "status": {"token": token, "expirationTimestamp": end}}
        if subresource == "binding":
            pod = self.store.get(place)
            if pod["spec"].get("nodeName"):
                raise RefusedError(409, "Conflict", f"pod {place.name} is already assigned to a node")
            pod["spec"]["nodeName"] = value["target"]["name"]
            self.store.replace(place, pod)
            return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}
        return self.store.create(place, value)

    def _list(self, request: web.Request, place: Place, fault: Fault | None) -> web.Response:
        items = self.store.list(place, _selector(request.query.get("fieldSelector", "")))
        meta: Json = {"resourceVersion": str(self.store.version)}
        start = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0)
        if limit and start + limit < len(items):
            meta["continue"] = str(start + limit)
        items = items[start : start + limit] if limit else items
        if fault is not None and fault.corrupt:
            items.append({"metadata": {"name": "broken", "namespace": "default"}, "spec": 7, "data": 7})
        kind = f"{KINDS.get(place.plural, 'Object')}List"
        return web.json_response({"kind": kind, "apiVersion": place.api_version, "metadata": meta, "items": items})

    async def _watch(self, request: web.Request, place: Place, fault: Fault | None) -> web.StreamResponse:
        selects = _selector(request.query.get("fieldSelector", ""))
        since = int(request.query.get("resourceVersion") or self.store.version)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query.get("timeoutSeconds") or 60)
        changes = self.store.changes(since, lambda: end - loop.time())
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        bookmarked = loop.time()
        transport = request.transport
        assert transport is not None
        self._watching.add(transport)
        try:
            async for change in changes:
                if change is None:
                    if (
                        loop.time() - bookmarked >= _BOOKMARK_EVERY
                        and request.query.get("allowWatchBookmarks") == "true"
                    ):
                        bookmarked = loop.time()
                        await response.write(_bookmark(place, self.store.version))
                    continue
                event = None
                if _within(place, change.place):
                    event = _event(change.type, change.object, change.before, selects)
                if event is None:
                    continue
                if fault is not None and fault.corrupt:
                    event["object"] = {**event["object"], "spec": 7, "data": 7}
                line = json.dumps(event).encode() + b"\n"
                if fault is not None and fault.truncate:
                    await response.write(line[: len(line) // 2])
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                await response.write(line)
        except RefusedError as refused:
            status = _status_of(refused.code, refused.reason, str(refused))
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        except ConnectionError:
            return response
        finally:
            self._watching.discard(transport)
        await response.write_eof()
        return response


def _event(kind: str, value: Json, before: Json | None, selects: Callable[[Json], bool]) -> Json | None:
    """The event for a watch with a selector: an object that starts to match is ADDED, one that stops is DELETED."""
    was, now = before is not None and selects(before), kind != "DELETED" and selects(value)
    if not was and not now:
        return None
    seen = "ADDED" if not was else "MODIFIED" if now else "DELETED"
    return {"type": seen, "object": value}


def _bookmark(place: Place, version: int) -> bytes:
    meta = {"resourceVersion": str(version)}
    value = {"kind": KINDS.get(place.plural, "Object"), "apiVersion": place.api_version, "metadata": meta}
    return json.dumps({"type": "BOOKMARK", "object": value}).encode() + b"\n"


def _within(collection: Place, place: Place) -> bool:
    return (collection.prefix, collection.plural) == (place.prefix, place.plural) and collection.namespace in (
        "",
        place.namespace,
    )


def _parse(path: str) -> tuple[Place, str]:
    """The place and the subresource of a path."""
    parts = path.strip("/").split("/")
    count = 2 if parts[0] == "api" else 3
    prefix, rest = "/" + "/".join(parts[:count]), parts[count:]
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        raise RefusedError(404, "NotFound", f"no such path: {path}")
    rest += [""] * (3 - len(rest))
    return Place(prefix, rest[0], namespace, rest[1]), rest[2]


def _selector(text: str) -> Callable[[Json], bool]:
    wanted = [part.partition("=")[::2] for part in text.split(",") if part]

    def selects(value: Json) -> bool:
        return all(_field(value, path) == expected for path, expected in wanted)

    return selects


def _field(value: Json, path: str) -> str:
    found: Any = value
    for name in path.split("."):
        found = found.get(name, "") if isinstance(found, dict) else ""
    return str(found)


def _status(code: int, reason: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response(_status_of(code, reason, message), status=code, headers=headers)


def _status_of(code: int, reason: str, message: str) -> Json:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
