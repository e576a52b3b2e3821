"""Arbitrary watch streams with the real reflector: it never spins, keeps the last valid state, and stays small."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiclient import ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.resources import CONFIG_MAPS, Target
from pykubelet.apiclient.watch import MAX_EVENT, Lines, Listing, WatchEvent, read_event
from pykubelet.base.errors import Transient
from pykubelet.base.files.decoding import shallow
from pykubelet.base.units import Seconds
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.testing.clock import VirtualClock

NAMES = st.sampled_from(["a", "b", "c"])
VERSIONS = st.integers(0, 20).map(str) | st.just("")
MINUTE: Seconds = 60.0


def config_map(name: str, version: str, value: object = "v") -> dict[str, Any]:
    meta = {"name": name, "namespace": "d", "uid": f"{name}-1", "resourceVersion": version}
    return {"kind": "ConfigMap", "metadata": meta, "data": {"k": value}}


def event(kind: str, value: object) -> bytes:
    return json.dumps({"type": kind, "object": value}).encode() + b"\n"


def error(code: int, seconds: int = 0) -> bytes:
    details = {"retryAfterSeconds": seconds} if seconds else {}
    return event("ERROR", {"kind": "Status", "code": code, "reason": "x", "message": "m", "details": details})


GOOD = st.builds(
    lambda kind, name, version: event(kind, config_map(name, version)),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]),
    NAMES,
    VERSIONS,
)
LINES = st.one_of(
    GOOD,
    GOOD,
    st.builds(lambda name, version: event("MODIFIED", config_map(name, version, 5)), NAMES, VERSIONS),
    st.builds(lambda code, wait: error(code, wait), st.sampled_from([410, 429, 500, 503]), st.integers(0, 40)),
    st.builds(lambda name: event("ADDED", {"kind": "Pod", "metadata": name}), NAMES),
    st.builds(lambda kind: event(kind, {}), st.text(max_size=8)),
    st.sampled_from([b"\n", b"{}\n", b"[]\n", b'{"type":"ADDED"', b'{"type":"ADDED","object":{"a":"\\ud800"}}\n']),
    st.just(b'{"type":"ADDED","object":' + b"[" * 2000 + b"\n"),
    st.binary(max_size=40),
)
STREAMS = st.lists(st.tuples(st.lists(LINES, max_size=5), st.sampled_from([0.0, 0.5, 20.0])), max_size=8)


def read(line: bytes, target: Target[ConfigMap]) -> WatchEvent[ConfigMap]:
    """As the client does."""
    try:
        return read_event(line, target.kind)
    except RecursionError:
        return read_event(shallow(line), target.kind)


@dataclass
class Server:
    """An API server with given responses; after the last one it repeats that one for ever."""

    clock: VirtualClock
    streams: list[tuple[list[bytes], Seconds]]
    lists: list[bytes]
    requests: list[Seconds] = field(default_factory=list)
    listed: int = 0

    async def list(self, target: Target[ConfigMap], select: ObjectSelector) -> Listing[ConfigMap]:
        self.requests.append(self.clock.monotonic())
        body = self.lists[min(self.listed, len(self.lists) - 1)]
        self.listed += 1
        pages = Pages(target.kind)
        pages.read(body)
        return pages.listing()

    async def watch(
        self, target: Target[ConfigMap], select: ObjectSelector, version: str, duration: Seconds
    ) -> AsyncGenerator[WatchEvent[ConfigMap], None]:
        self.requests.append(self.clock.monotonic())
        lines, lasts = self.streams.pop(0) if len(self.streams) > 1 else self.streams[0]
        cut = Lines()
        for chunk in lines:
            for line in cut.feed(chunk):
                yield read(line, target)
        await self.clock.sleep(lasts)


@dataclass
class ReflectorRun:
    server: Server
    reflector: Reflector[ConfigMap]
    seen: list[dict[str, str]]


async def follow(streams: list[tuple[list[bytes], Seconds]], lists: list[bytes], minutes: float = 5) -> ReflectorRun:
    clock, seen = VirtualClock(), list[dict[str, str]]()

    def deliver(items: Mapping[Key, ConfigMap]) -> None:
        seen.append({name: each.metadata.resource_version for (_, name), each in items.items()})

    server = Server(clock, streams, lists)
    reflector: Reflector[ConfigMap] = Reflector(
        client=server,  # type: ignore[arg-type] # all that it asks of a client
        query=Query(CONFIG_MAPS.all("d"), ObjectSelector()),
        deliver=deliver,
        clock=clock,
    )
    task = asyncio.create_task(reflector.run(), name="reflector")
    try:
        for _ in range(int(minutes * MINUTE)):
            await clock.advance(1.0)
        assert not task.done(), "it has ended"
    finally:
        task.cancel()
        await asyncio.wait({task})
    return ReflectorRun(server, reflector, seen)


def listing(*names: str, version: str = "1") -> bytes:
    items = [config_map(name, version) for name in names]
    document = {"kind": "ConfigMapList", "metadata": {"resourceVersion": version}, "items": items}
    return json.dumps(document).encode()


def most_per_minute(moments: list[Seconds]) -> int:
    return max(sum(at <= other < at + MINUTE for other in moments) for at in moments)


@given(STREAMS, st.lists(st.sampled_from([listing("a"), listing("a", "b"), b"{}", b"x", b'{"items":[5]}']), min_size=1))
def test_reflector_on_any_streams_goes_on_without_spinning(
    streams: list[tuple[list[bytes], Seconds]], lists: list[bytes]
) -> None:
    followed = asyncio.run(follow([*streams, ([], 0.0)], [*lists, listing("last")], minutes=2))
    # A delay is at least 0.8 s, except after the first of several quick ends.
    assert most_per_minute(followed.server.requests) <= 2 * MINUTE / 0.8
    assert all(set(items) <= {"a", "b", "c", "last", ""} for items in followed.seen)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [event("BOOKMARK", config_map("", "5"))],
        [event("MODIFIED", config_map("a", "5"))],
        [b"garbage\n"],
        [error(410)],
        [error(429)],
        [event("MODIFIED", config_map("a", "5")), error(410)],
        [event("MODIFIED", config_map("a", "5")), b"garbage\n"],
    ],
    ids=["empty", "bookmark", "event", "garbage", "expired", "too many", "event and expired", "event and garbage"],
)
async def test_reflector_on_watches_that_end_at_once_asks_seldom(lines: list[bytes]) -> None:
    followed = await follow([(lines, 0.0)], [listing("a")])
    assert most_per_minute(followed.server.requests) <= 2 * MINUTE / 0.8
    assert followed.seen[-1].keys() == {"a"}


async def test_reflector_asked_to_wait_waits() -> None:
    followed = await follow([([error(429, 40)], 0.0)], [listing("a")], minutes=4)
    gaps = [b - a for a, b in zip(followed.server.requests[1:], followed.server.requests[2:], strict=False)]
    assert gaps and min(gaps[:-1]) >= 40


async def test_reflector_whose_new_list_has_a_damaged_object_keeps_its_last_good_state() -> None:
    damaged = json.dumps(
        {
            "kind": "ConfigMapList",
            "metadata": {"resourceVersion": "9"},
            "items": [config_map("a", "9", 5), config_map("b", "9")],
        }
    ).encode()
    followed = await follow([([error(410)], 0.0), ([], 200.0)], [listing("a"), damaged], minutes=1)
    assert followed.seen == [{"a": "1"}, {"a": "1", "b": "9"}]


async def test_reflector_whose_watch_cannot_get_past_an_event_lists_again() -> None:
    followed = await follow([([b"garbage\n"], 0.0)], [listing("a"), listing("a", "b", version="7")], minutes=5)
    assert followed.seen[-1] == {"a": "7", "b": "7"}


async def test_reflector_while_the_server_is_away_keeps_its_state() -> None:
    followed = await follow([([error(410)], 0.0)], [listing("a"), b"x"], minutes=3)
    assert followed.seen == [{"a": "1"}]
    assert followed.reflector.fault is not None


def test_lines_without_an_end_are_refused_before_they_fill_memory() -> None:
    cut, fed = Lines(), 0
    with pytest.raises(Transient, match="too long"):
        while fed <= 2 * MAX_EVENT:
            assert list(cut.feed(b"x" * (1 << 20))) == []
            fed += 1 << 20
    assert fed <= MAX_EVENT + (1 << 20)
    # A line that ends is delivered whole, regardless of the chunks.
    assert list(Lines().feed(b"y" * MAX_EVENT + b"\n")) == [b"y" * MAX_EVENT]
