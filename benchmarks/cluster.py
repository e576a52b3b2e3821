"""A cluster for the agents: an API server with the objects of controllers, and a client that takes times.

Pods are bound by their ``nodeName``, so that no scheduler is measured. The client takes its times from a watch of the
pods, as any client can.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from benchmarks.manifests import NAMESPACE, Manifest
from benchmarks.observer import NODE
from pykubelet.base.errors import Permanent
from pykubelet.testing.envtest import ADMIN, EnvTest

_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_NODE_PATH = f"/api/v1/nodes/{NODE}"
_AT_ONCE = 8
"""Concurrent requests of a client."""
_LINE_LIMIT = 4 << 20
_LOOK_SECONDS = 0.2


class _Meta(msgspec.Struct):
    name: str = ""


class _State(msgspec.Struct):
    running: dict[str, str] | None = None


class _Container(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_Container] = []


class _Pod(msgspec.Struct):
    metadata: _Meta
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


@asynccontextmanager
async def api_server(home: Path) -> AsyncIterator[EnvTest]:
    """Start an API server with a user for the node. NotFound: this machine has no API server."""
    server = EnvTest(home, nodes=(NODE,))
    try:
        await asyncio.to_thread(server.start)
        yield server
    finally:
        await asyncio.to_thread(server.destroy)


class Client:
    """Creates and deletes pods and records when it saw them Running and gone, in nanoseconds of the wall clock."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._changed = asyncio.Condition()
        self._running: dict[str, int] = {}
        self._gone: dict[str, int] = {}

    @classmethod
    @asynccontextmanager
    async def connect(cls, server: EnvTest) -> "AsyncIterator[Client]":
        """Connect as administrator and watch the pods until the end of the block."""
        context = ssl.create_default_context(cafile=str(server.home / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        headers = {"Authorization": f"Bearer {server.tokens[ADMIN]}"}
        http = aiohttp.ClientSession(
            server.url, connector=connector, headers=headers, read_bufsize=_LINE_LIMIT, timeout=aiohttp.ClientTimeout()
        )
        async with http, asyncio.TaskGroup() as group:
            client = cls(http)
            follow = group.create_task(client._follow(), name="watch pods")
            yield client
            follow.cancel()

    async def version(self) -> str:
        """Version of the server, such as ``v1.36.2``."""
        return str((await self._get("/version")).get("gitVersion"))

    async def prepare(self, server: EnvTest) -> None:
        """Create the objects that every pod refers to and that a controller would create."""
        ca = (server.home / "ca.crt").read_text()
        root = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        base = f"/api/v1/namespaces/{NAMESPACE}"
        await self._send("POST", f"{base}/configmaps", {**root, "data": {"ca.crt": ca}})
        await self._send("POST", f"{base}/serviceaccounts", account)

    async def create(self, pod: Manifest) -> int:
        """Create the pod on the node; returns when the request was sent."""
        pod["spec"]["nodeName"] = NODE
        return await self._send("POST", _PODS, pod)

    async def delete(self, name: str, grace: int | None = None) -> int:
        """Delete the pod as kubectl does; returns when the request was sent. ``grace`` defaults to the pod's own."""
        options: Manifest = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        return await self._send("DELETE", f"{_PODS}/{name}", options)

    async def running(self, names: Collection[str], seconds: float) -> dict[str, int]:
        """Wait for all pods; returns when each was first seen Running. Permanent: timeout."""
        await self._wait(lambda: self._running.keys() >= set(names), f"{len(names)} pods Running", seconds)
        return {name: self._running[name] for name in names}

    async def gone(self, names: Collection[str], seconds: float) -> dict[str, int]:
        """Wait for all pods; returns when each was gone. Permanent: timeout."""
        await self._wait(lambda: self._gone.keys() >= set(names), f"{len(names)} pods gone", seconds)
        return {name: self._gone[name] for name in names}

    async def node_ready(self, seconds: float) -> None:
        """Wait until the node is Ready. Permanent: timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                node = await self._get(_NODE_PATH)
                while not _is_ready(node):
                    await asyncio.sleep(_LOOK_SECONDS)
                    node = await self._get(_NODE_PATH)
                return
        raise Permanent(f"the node was not Ready within {seconds:.0f} s")

    async def trouble(self, name: str) -> str:
        """The waiting reason and message of a container of the pod; empty if no container reports one."""
        statuses = (await self._get(f"{_PODS}/{name}")).get("status", {}).get("containerStatuses", ())
        waiting = (each.get("state", {}).get("waiting") or {} for each in statuses)
        return "; ".join(": ".join(filter(None, (w.get("reason"), w.get("message")))) for w in waiting if w)

    async def forget_all(self) -> None:
        """Delete all pods without waiting for the node, and the Node object."""
        for pod in (await self._get(_PODS)).get("items", ()):
            await self.delete(pod["metadata"]["name"], grace=0)
        await self._send("DELETE", _NODE_PATH)

    async def _wait(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(done)
        except TimeoutError:
            raise Permanent(f"not within {seconds:.0f} s: {what}") from None

    async def _follow(self) -> None:
        # A server that has just started may end the first watch: its cache is not complete yet.
        while not self._running:
            await self._watch()
            await asyncio.sleep(_LOOK_SECONDS)
        raise Permanent("the API server ended the watch of pods")

    async def _watch(self) -> None:
        events, pods = msgspec.json.Decoder(_Event), msgspec.json.Decoder(_Pod)
        async with self._http.get(_PODS, params={"watch": "true"}) as answer:
            async for line in answer.content:
                moment, event = time.time_ns(), events.decode(line)
                if event.type == "ERROR":
                    return
                pod = pods.decode(event.object)
                if event.type == "DELETED":
                    self._gone.setdefault(pod.metadata.name, moment)
                elif _runs(pod.status):
                    self._running.setdefault(pod.metadata.name, moment)
                async with self._changed:
                    self._changed.notify_all()

    async def _get(self, path: str) -> dict[str, Any]:
        """The object; empty if it does not exist."""
        async with self._http.get(path) as answer:
            if answer.status >= 300:
                return {}
            found: dict[str, Any] = msgspec.json.decode(await answer.read())
            return found

    async def _send(self, method: str, path: str, body: Manifest | None = None) -> int:
        async with self._gate:
            moment = time.time_ns()
            async with self._http.request(method, path, json=body) as answer:
                text = await answer.text()
        if answer.status >= 300 and answer.status not in (404, 409):
            raise Permanent(f"{method} {path}: {answer.status} {text[:300]}")
        return moment


def _runs(status: _Status) -> bool:
    """Whether all containers run. A pod whose container is to be restarted also has the phase Running."""
    containers = status.container_statuses
    return status.phase == "Running" and all(each.state.running is not None for each in containers)


def _is_ready(node: Manifest) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
