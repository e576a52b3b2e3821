"""A fake API server for agents on a real runtime, with the pods and the node of one of them."""

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykubelet.testing.fake_api import FakeApi
from pykubelet.testing.fake_api.store import Place
from pykubelet.testing.patience import PATIENCE
from tests.manifests import Json

_NODE = "testnode"


class Api:
    """A fake API server in a separate thread, in which all calls run."""

    def __init__(self) -> None:
        self._fake = FakeApi()
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fake-api", daemon=True)

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._fake:
            self._ready.set()
            await self._stop.wait()

    def __enter__(self) -> "Api":
        self._thread.start()
        assert self._ready.wait(10 * PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def _do(self, work: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10 * PATIENCE)

    def put_pod(self, manifest: Json) -> None:
        manifest["spec"]["nodeName"] = _NODE
        self._do(lambda: self._fake.store.create(Place("/api/v1", "pods", "default"), manifest))

    def pod(self, name: str) -> Json:
        found: Json = self._do(lambda: self._fake.store.get(Place("/api/v1", "pods", "default", name)))
        return found

    def remove_pod(self, name: str) -> None:
        self._do(lambda: self._fake.store.delete(Place("/api/v1", "pods", "default", name), "", 0))

    def conditions(self) -> dict[str, str]:
        node = self._do(lambda: self._fake.store.get(Place("/api/v1", "nodes", "", _NODE)))
        return {each["type"]: each["status"] for each in node["status"].get("conditions", ())}

    def annotations(self, name: str, reason: str) -> dict[str, str]:
        """The annotations of a pod's event; empty before it is sent."""
        events = self._do(lambda: self._fake.store.list(Place("/api/v1", "events", "default"), lambda each: True))
        for event in events:
            if (event["involvedObject"]["name"], event["reason"]) == (name, reason):
                return dict(event["metadata"].get("annotations", {}))
        return {}

    def kubeconfig(self, path: Path) -> Path:
        cluster = {"name": "c", "cluster": {"server": self._fake.config.server}}
        user = {"name": "u", "user": {"token": "t"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        parts = {"clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **parts}))
        return path
