"""The fake API server for blocking tests: its event loop runs in a separate thread."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pykubelet.testing.fake_api.faults import Fault
from pykubelet.testing.fake_api.server import FakeApi
from pykubelet.testing.fake_api.store import Place, RefusedError
from pykubelet.testing.patience import PATIENCE

T = TypeVar("T")
_SECONDS = 10.0 * PATIENCE
_PODS = Place("/api/v1", "pods", "default")


class FakeApiThread:
    """A running fake API server; faults may be set from any thread."""

    def __init__(self, api: FakeApi, loop: asyncio.AbstractEventLoop) -> None:
        self.api = api
        self._loop = loop

    @property
    def url(self) -> str:
        return self.api.config.server

    def fail(self, *faults: Fault) -> None:
        """Replace all faults by these."""
        self.api.faults = list(faults)

    def break_watches(self) -> None:
        """Break the connections of all current watches."""
        self._loop.call_soon_threadsafe(self.api.break_watches)

    def compact(self) -> None:
        """Drop the history: watches from an older version get 410."""
        self.api.store.compact()

    def go_away(self) -> None:
        """Stop listening and close all connections; :meth:`serve_again` listens on the same port again."""
        asyncio.run_coroutine_threadsafe(self.api.go_away(), self._loop).result(_SECONDS)

    def serve_again(self) -> None:
        """Listen again, with all objects."""
        asyncio.run_coroutine_threadsafe(self.api.serve_again(), self._loop).result(_SECONDS)

    def put_pod(self, manifest: Mapping[str, Any], node: str) -> None:
        """Create a pod that is bound to the node, bypassing all faults."""
        name, spec = manifest["metadata"]["name"], {**manifest["spec"], "nodeName": node}
        value = {**manifest, "metadata": {"name": name}, "spec": spec}
        self.do(lambda: self.api.store.create(_PODS, json.loads(json.dumps(value))))

    def delete_pod(self, name: str) -> None:
        """Request the pod's deletion, bypassing all faults; no error if it does not exist."""

        def delete() -> None:
            with suppress(RefusedError):
                self.api.store.delete(replace(_PODS, name=name), "", None)

        self.do(delete)

    def do(self, work: Callable[[], T]) -> T:
        """Run a call in the server's thread, such as one of its store; return its result or raise its error."""

        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_SECONDS)

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig for this server."""
        document = {
            "current-context": "fake",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": ""}}],
        }
        path.write_text(json.dumps(document))
        return path


@contextmanager
def fake_api_thread() -> Iterator[FakeApiThread]:
    """Serve until the end of the block."""
    ready, made = threading.Event(), []
    loop = asyncio.new_event_loop()
    end = asyncio.Event()

    async def serve() -> None:
        async with FakeApi() as api:
            made.append(api)
            ready.set()
            await end.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            # Cancel the watches whose clients are still connected.
            for task in (left := asyncio.all_tasks(loop)):
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=run, name="fake API server", daemon=True)
    thread.start()
    ready.wait(_SECONDS)
    try:
        yield FakeApiThread(made[0], loop)
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(_SECONDS)
