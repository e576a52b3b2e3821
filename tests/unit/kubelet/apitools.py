"""Common parts of tests that use the API server: the fake one, a client, objects in it, a hurried clock."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pykubelet.apiclient import ApiClient
from pykubelet.base.clock import SystemClock, Timer
from pykubelet.models.codec import from_builtins, to_builtins
from pykubelet.models.core_v1 import Pod
from pykubelet.testing.fake_api import FakeApi
from pykubelet.testing.fake_api.store import Place


class QuickClock(SystemClock):
    """Waits a hundredth of the time; ``shift`` is time that has passed besides, ``jump`` moves the wall clock alone."""

    def __init__(self) -> None:
        self.shift = 0.0
        self.jump = 0.0
        self.sleeps: list[float] = []
        """The requested delays in seconds; the first thousand."""

    def now(self) -> float:
        return super().now() + self.shift + self.jump

    def monotonic(self) -> float:
        return super().monotonic() + self.shift

    async def sleep(self, seconds: float) -> None:
        self._note(seconds)
        await super().sleep(seconds / 100)

    def call_later(self, seconds: float, function: Callable[[], object]) -> Timer:
        self._note(seconds)
        return super().call_later(seconds / 100, function)

    def _note(self, seconds: float) -> None:
        if len(self.sleeps) < 1000:
            self.sleeps.append(seconds)


@dataclass
class Api:
    """The fake API server and a client of it."""

    fake: FakeApi
    client: ApiClient
    clock: QuickClock

    def put(self, plural: str, name: str, namespace: str = "default", prefix: str = "/api/v1", **fields: Any) -> Any:
        """Create an object."""
        place = Place(prefix, plural, namespace)
        return self.fake.store.create(place, {"metadata": {"name": name}, **fields})

    def change(self, plural: str, name: str, namespace: str = "default", prefix: str = "/api/v1", **fields: Any) -> Any:
        """Replace fields of an object."""
        place = Place(prefix, plural, namespace, name)
        return self.fake.store.replace(place, {**self.fake.store.get(place), **fields})

    def get(self, plural: str, name: str, namespace: str = "default", prefix: str = "/api/v1") -> Any:
        return self.fake.store.get(Place(prefix, plural, namespace, name))

    def all(self, plural: str, prefix: str = "/api/v1") -> list[Any]:
        return self.fake.store.list(Place(prefix, plural), lambda _: True)

    def put_pod(self, value: Pod) -> Pod:
        """Create a pod on the node ``n``; as it is there."""
        plain: Any = to_builtins(value)
        plain["spec"]["nodeName"] = "n"
        made = self.fake.store.create(Place("/api/v1", "pods", value.metadata.namespace or "default"), plain)
        return from_builtins(made, Pod)


@asynccontextmanager
async def fake_api() -> AsyncIterator[Api]:
    """All of it."""
    async with FakeApi() as fake:
        clock = QuickClock()
        client = ApiClient(fake.config, clock)
        try:
            yield Api(fake, client, clock)
        finally:
            await client.close()


@asynccontextmanager
async def running(*parts: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """The parts run meanwhile; one that dies fails the test."""
    tasks = [asyncio.create_task(part, name=f"part {number}") for number, part in enumerate(parts)]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
