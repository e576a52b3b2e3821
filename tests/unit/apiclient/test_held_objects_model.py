"""Objects that come, grow, shrink and go at random, compared with a model of the API server's collection."""

import json
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from msgspec import Struct

from pykubelet.apiclient import held_objects, pages
from pykubelet.apiclient.held_objects import HeldObjects, Key
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.watch import read_event
from pykubelet.models.core_v1 import Pod

TOTAL, ENDING, OF_NAMESPACE = 100_000, 25_000, 25_000
LARGEST = 12_000
OVERHEAD = 1500
"""More than a pod takes besides its host name."""
GONE = datetime(2026, 1, 1, tzinfo=UTC)


class Present(Struct):
    """An object of the API server's collection."""

    uid: str
    version: int
    size: int
    ending: bool = False


class Collection:
    """The API server's collection, and what is held of it."""

    def __init__(self, random: Random) -> None:
        self.held = HeldObjects[Pod]()
        self.there: dict[Key, Present] = {}
        self._random = random
        self._changes = 0

    def change(self) -> None:
        """Create, change or delete an object, or list all; in each third period most are deleted."""
        self._changes += 1
        roll = self._random.random()
        if roll < 0.1:
            self._list()
        elif self.there and roll < (0.8 if self._changes % 90 > 60 else 0.3):
            key = self._random.choice(list(self.there))
            del self.there[key]
            self.held.remove(key)
        else:
            self._put((f"n{self._random.randrange(3)}", f"p{self._random.randrange(20)}"))

    def _put(self, key: Key) -> None:
        found = self.there.get(key)
        if found is None:
            found = self.there[key] = Present(f"{self._changes}", self._changes, self._random.randrange(LARGEST))
        else:
            found.version, found.size = self._changes, self._random.randrange(LARGEST)
            found.ending = found.ending or self._random.random() < 0.2
        event = {"type": "MODIFIED", "object": {"kind": "Pod", "apiVersion": "v1", **self._plain(key)}}
        self.held.put(read_event(json.dumps(event).encode(), Pod))

    def _list(self) -> None:
        read = Pages(Pod)
        given = [self._plain(key) for key in self.there]
        answer = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": given}
        read.read(json.dumps(answer).encode())
        self.held.replace(read.listing())
        assert not self.held.may_hold_more(), "the next list would be the same"

    def _plain(self, key: Key) -> dict[str, Any]:
        found = self.there[key]
        meta = {"namespace": key[0], "name": key[1], "uid": found.uid, "resourceVersion": f"{found.version:06}"}
        if found.ending:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": meta, "spec": {"hostname": "h" * found.size}}


@pytest.fixture(autouse=True)
def _bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (held_objects, pages):
        monkeypatch.setattr(module, "MAX_TOTAL", TOTAL)
        monkeypatch.setattr(module, "MAX_ENDING", ENDING)
    monkeypatch.setattr(held_objects, "MAX_OF_NAMESPACE", OF_NAMESPACE)


@pytest.mark.parametrize("seed", range(20))
def test_held_and_unread_objects_are_those_of_the_api_server(seed: int) -> None:
    world, left_out = Collection(Random(seed)), 0
    for _ in range(180):
        world.change()
        held = world.held
        assert held.items.keys() | held.unread.keys() == world.there.keys()
        for key, found in world.there.items():
            if key in held.unread:
                left_out += 1
                assert held.unread[key].meta.resource_version == f"{found.version:06}"
            elif key in held.items:
                assert held.items[key].metadata.resource_version == f"{found.version:06}"
            if key in held.items:
                meta = held.items[key].metadata
                assert (meta.uid, meta.deletion_timestamp) == (found.uid, GONE if found.ending else None)
        if sum(each.size + OVERHEAD for each in world.there.values()) <= TOTAL:
            assert not held.unread or held.may_hold_more(), "all fit"
        assert sum(len(each.spec.hostname) for each in held.items.values()) <= 2.5 * TOTAL + LARGEST
    assert left_out, "the bounds were never reached"
