"""The URL source, on a fake fetch."""

import asyncio
import hashlib
import threading
from pathlib import Path

import pytest

from pykubelet.base.concurrency import blocking
from pykubelet.base.errors import Transient
from pykubelet.base.text import without_credentials
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.manifest_types import Manifest
from pykubelet.kubelet.desired.sources import url_source
from pykubelet.kubelet.desired.sources.source_interfaces import Response
from pykubelet.kubelet.desired.sources.source_types import HttpSourceConfig, SourceContent
from pykubelet.kubelet.desired.sources.url_source import UrlSource
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.wait import held_calls, until
from tests.unit.kubelet.desired.sources.samples import config_map, images, pod

URL = "http://user:secret@host/pods.yaml"


class FakeFetch:
    """Answers what it is told, with ETags if wanted, and keeps the requests' headers."""

    def __init__(self) -> None:
        self.answer: Response | Exception = Response(200)
        self.etags = True
        self.requests: list[dict[str, str]] = []
        self.closed = False

    async def get(self, url: str, headers: tuple[tuple[str, str], ...], timeout: Seconds) -> Response:
        assert (url, timeout) == (URL, 10.0)
        self.requests.append(dict(headers))
        if isinstance(self.answer, Exception):
            raise self.answer
        etag = hashlib.sha256(self.answer.body).hexdigest()
        if self.etags and dict(headers).get("If-None-Match") == etag:
            return Response(304)
        return Response(self.answer.status, self.answer.body, etag if self.etags else "")

    async def close(self) -> None:
        self.closed = True


class ManualSource:
    def __init__(self, backup: Path | None = None) -> None:
        self.fetch = FakeFetch()
        self.delivered: list[SourceContent] = []
        self.clock = VirtualClock()
        config = HttpSourceConfig(URL, "n", headers=(("X-Token", "t"),), backup=backup)
        self.source = UrlSource(config=config, deliver=self.delivered.append, clock=self.clock, fetch=self.fetch)

    async def look(self, answer: Response | Exception) -> dict[str, str]:
        self.fetch.answer = answer
        await self.source.poll()
        return images(self.delivered[-1])

    def problems(self) -> list[str]:
        return [str(problem) for state in self.delivered[-1].states for problem in state.problems]


def body(text: str) -> Response:
    return Response(200, text.encode())


@pytest.mark.parametrize("etags", [True, False])
async def test_unchanged_answer_is_not_delivered_again(etags: bool) -> None:
    hand = ManualSource()
    hand.fetch.etags = etags
    answer = body(pod("a") + config_map("c"))
    assert await hand.look(answer) == {"a-n": "busybox:1"}
    assert hand.delivered[0].read
    await hand.look(answer)
    await hand.look(answer)
    assert len(hand.delivered) == 1
    assert hand.fetch.requests[0] == {"X-Token": "t"}
    assert ("If-None-Match" in hand.fetch.requests[1]) == etags
    assert await hand.look(body(pod("a", "two"))) == {"a-n": "two"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Transient("no answer within 10 s"), "no answer within 10 s"),
        (Response(503, b"x"), "answered with status 503"),
        (Response(404), "answered with status 404"),
        (Response(200, b""), "gave an empty answer; to stop all its pods let it give a PodList without items"),
        (Response(200, b"\n"), "gave an empty answer"),
        (Response(200, b"# down for maintenance\n"), "gave an empty answer"),
        (Response(200, b"---\n"), "gave an empty answer"),
        (Response(200, b"null"), "gave an empty answer"),
        (Response(200, b"\xef\xbb\xbf"), "gave an empty answer"),
        (Response(200, b"<html>"), "must be a Kubernetes object"),
        (Response(200, b"a: ["), "not valid YAML"),
    ],
)
async def test_bad_responses_remove_no_pods(answer: Response | Exception, problem: str) -> None:
    hand = ManualSource()
    await hand.look(body(pod("a")))
    assert await hand.look(answer) == {"a-n": "busybox:1"}
    assert problem in hand.problems()[0]
    assert hand.problems()[0].startswith("http://host/pods.yaml")
    await hand.look(answer)
    assert len(hand.delivered) == 2
    assert "If-None-Match" not in hand.fetch.requests[-1]
    assert await hand.look(body(pod("a"))) == {"a-n": "busybox:1"}
    assert hand.problems() == []


async def test_manifest_directory_that_is_not_responding_does_not_delay_the_url() -> None:
    hand, release = ManualSource(), threading.Event()
    with held_calls():
        reads = [asyncio.create_task(blocking.call("manifests", release.wait)) for _ in range(blocking.PER_OWNER)]
        try:
            await until(lambda: blocking.running_calls(60.0) == blocking.PER_OWNER)
            async with asyncio.timeout(10):
                assert await hand.look(body(pod("a"))) == {"a-n": "busybox:1"}
        finally:
            release.set()
            await asyncio.wait(reads)


@pytest.mark.parametrize("answer", [Transient("down"), Response(500)])
async def test_url_without_a_response_does_not_count_as_read(answer: Response | Exception) -> None:
    hand = ManualSource()
    await hand.look(answer)
    assert not hand.delivered[-1].read
    assert hand.problems()


async def test_empty_first_response_means_no_pods() -> None:
    hand = ManualSource()
    await hand.look(Response(200))
    assert hand.delivered[-1].read
    assert hand.delivered[-1].pods == ()


async def test_list_without_items_removes_all_pods() -> None:
    hand = ManualSource()
    await hand.look(body(pod("a")))
    assert await hand.look(body('{"apiVersion": "v1", "kind": "PodList", "items": []}')) == {}
    assert hand.problems() == []


async def test_the_good_part_of_a_broken_answer_is_used() -> None:
    hand = ManualSource()
    await hand.look(body(pod("a") + pod("b")))
    assert await hand.look(body(pod("a", "two") + pod("b", "''"))) == {"a-n": "two", "b-n": "busybox:1"}


async def test_a_copy_outlives_the_agent(tmp_path: Path) -> None:
    await ManualSource(tmp_path).look(body(pod("a")))
    assert await ManualSource(tmp_path).look(body("a: [")) == {"a-n": "busybox:1"}


async def test_url_is_fetched_every_20_seconds() -> None:
    hand = ManualSource()
    hand.fetch.answer = Transient("down")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(hand.source.run(), name="source-under-test")
        await hand.clock.advance(61)
        task.cancel()
    assert len(hand.fetch.requests) == 4
    assert hand.fetch.closed


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (URL, "http://host/pods.yaml"),
        ("https://h:8443/a?b=c", "https://h:8443/a?b=c"),
        ("http://u@[::1]:1/", "http://[::1]:1/"),
        ("http://u:p@[x", "[x"),
    ],
)
def test_credentials_are_not_shown(url: str, shown: str) -> None:
    assert without_credentials(url) == shown


async def test_answer_with_half_a_surrogate_pair_keeps_what_was_given() -> None:
    hand = ManualSource()
    assert await hand.look(body(pod("a"))) == {"a-n": "busybox:1"}
    broken = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "\\ud800"}}'
    assert await hand.look(body(broken)) == {"a-n": "busybox:1"}
    assert any("spec.nodeName" in problem for problem in hand.problems())
    assert await hand.look(body(pod("a", "new"))) == {"a-n": "new"}


async def test_answer_that_cannot_be_checked_keeps_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    hand = ManualSource()
    await hand.look(body(pod("a")))

    def fails(data: bytes, origin: str) -> Manifest:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(url_source, "parse", fails)
    assert await hand.look(body(pod("a", "new"))) == {"a-n": "busybox:1"}
    assert any("cannot be checked: RuntimeError" in problem for problem in hand.problems())
    monkeypatch.undo()
    assert await hand.look(body(pod("a", "new"))) == {"a-n": "new"}


async def test_changed_period_fetches_now_and_then_with_it() -> None:
    hand = ManualSource()
    hand.fetch.answer = Transient("down")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(hand.source.run(), name="source-under-test")
        await hand.clock.advance(5)
        hand.source.reconfigure(3600)
        await hand.clock.advance(100)
        assert len(hand.fetch.requests) == 2
        hand.source.reconfigure(10)
        await hand.clock.advance(35)
        assert len(hand.fetch.requests) == 6
        task.cancel()


async def test_empty_answer_after_a_restart_leaves_the_pods_of_the_last_valid_one(tmp_path: Path) -> None:
    before = ManualSource(tmp_path)
    await before.look(body(pod("a")))
    after = ManualSource(tmp_path)
    for answer in (body(""), body("# down for maintenance\n")):
        assert await after.look(answer) == {"a-n": "busybox:1"}
        assert "gave an empty answer" in after.problems()[0]
    assert await after.look(body("kind: PodList\napiVersion: v1\n")) == {}
