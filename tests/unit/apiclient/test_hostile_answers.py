"""Answers of a proxy, or of what pretends to be the API server: errors show no credentials, and no answer blocks."""

import asyncio
import base64
import gzip
import traceback
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pykubelet.apiclient import ApiClient, ClusterConfig, ObjectSelector
from pykubelet.apiclient.answers import TooLong
from pykubelet.apiclient.errors import error_of_response
from pykubelet.apiclient.kubeconfig import User
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.resources import PODS
from pykubelet.apiclient.watch import Lines, read_event, read_object
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.models.core_v1 import Pod
from tests.unit.apiclient.clocks import QuickClock
from tests.unit.base.http.http_server import http_server

_SECRETS = ("t0ken", "pa55word", base64.b64encode(b"me:pa55word").decode())


async def _failure(config: ClusterConfig) -> str:
    client = ApiClient(config, QuickClock())
    try:
        async with asyncio.timeout(30):
            with pytest.raises(PykubeletError) as caught:
                await client.get(PODS.at("default", "a"))
    finally:
        await client.close()
    # The log shows the causes of an error with it, if that is one which is not expected.
    assert not [each for each in _SECRETS if each in "".join(traceback.format_exception(caught.value))]
    return str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: \0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Le", b""],
)
async def test_malformed_answer_fails_without_the_token_in_its_error(answer: bytes) -> None:
    async with http_server(lambda _: answer) as server:
        said = await _failure(ClusterConfig(f"http://127.0.0.1:{server.port}", user=User(token="t0ken")))
    assert not [each for each in _SECRETS if each in said]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 502 Bad\x1b Gateway\r\nContent-Length: 0\r\n\r\n", r"the proxy answered 502 Bad\x1b Gateway"),
        (b"HTTP/1.1 407 " + b"x" * 5000 + b"\r\nContent-Length: 0\r\n\r\n", "the proxy answered 407 " + "x" * 100),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not valid HTTP"),
    ],
)
async def test_refusal_of_a_proxy_fails_without_credentials_in_its_error(answer: bytes, expected: str) -> None:
    async with http_server(lambda _: answer) as proxy:
        url = f"http://me:pa55word@127.0.0.1:{proxy.port}"
        said = await _failure(ClusterConfig("https://api.example:6443", proxy_url=url, user=User(token="t0ken")))
    assert said.endswith(expected)
    assert not [each for each in _SECRETS if each in said]


@pytest.mark.parametrize("server", ["https://api.example:6443", "http://api.example:8080"])
@pytest.mark.parametrize("proxy", ["proxy:99999", "pr\u2100xy:1"])
async def test_url_of_a_proxy_that_is_invalid_is_not_shown(server: str, proxy: str) -> None:
    said = await _failure(ClusterConfig(server, proxy_url=f"http://me:pa55word@{proxy}"))
    assert said == "get pods default/a: the URL of the API server or of its proxy is invalid"


async def test_compressed_watch_of_empty_lines_leaves_others_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turn, read = 0, Counter[int]()
    feed = Lines.feed

    async def count() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    def noted(self: Lines, chunk: bytes) -> Iterator[bytes]:
        read[turn] += len(chunk)
        return feed(self, chunk)

    monkeypatch.setattr(Lines, "feed", noted)
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"\n" * (16 << 20))
    others = asyncio.create_task(count(), name="others")
    async with http_server(lambda _: answer) as server, asyncio.timeout(60):
        client = ApiClient(ClusterConfig(f"http://127.0.0.1:{server.port}"), QuickClock())
        try:
            assert [each async for each in client.watch(PODS.all(), ObjectSelector(), "1", 30.0)] == []
        finally:
            await client.close()
            others.cancel()
    assert sum(read.values()) == 16 << 20 and max(read.values()) < 2 << 20


_TINY = b"{}," * 900_000 + b"{}"
_META = b'"metadata":{"name":"a","namespace":"d","uid":"1"}'
_CONTAINERS = b'{"kind":"Pod",%b,"spec":{"containers":[%b]}}' % (_META, _TINY)
_MANAGED_FIELDS = b'{"kind":"Pod",%b,"managedFields":[%b]}}' % (_META[:-1], _TINY)
_NULL = b'{"kind":"Pod","metadata":{"name":null},"x":[%b]}' % _TINY
_CAUSES = b'{"details":{"causes":[%b]}}' % _TINY
_UNENDED = b"{" * 1_100_000 + b'"' + b'\\"' * 1_000_000
"""A string without an end, in which each escaped quote could begin another one."""


def _in_a_list(text: bytes) -> None:
    pages = Pages(Pod)
    pages.read(b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[%b]}' % text)
    (unread,) = pages.listing().unread
    assert "more than 256 MiB" in unread.fault


def _in_an_event(text: bytes) -> None:
    event = read_event(b'{"type":"ADDED","object":%b}' % text, Pod)
    assert "more than 256 MiB" in event.fault and event.meta.name == "a"


def _as_an_answer(text: bytes) -> None:
    with pytest.raises(Transient, match="more than 256 MiB"):
        read_object(text, Pod, "get pods d/a")


def _as_an_error(text: bytes) -> None:
    with pytest.raises(Transient, match="more than 256 MiB"):
        read_event(b'{"type":"ERROR","object":%b}' % text, Pod)


def _as_a_failure(text: bytes) -> None:
    assert str(error_of_response(500, text, "get pods d/a")).startswith("get pods d/a: HTTP status 500: {")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (_in_a_list, _CONTAINERS),
        (_in_a_list, _NULL),
        (_in_an_event, _CONTAINERS),
        (_in_an_event, _MANAGED_FIELDS),
        (_as_an_answer, _CONTAINERS),
        (_as_an_answer, _NULL),
        (_as_an_answer, _UNENDED),
        (_as_an_error, _CAUSES),
        (_as_a_failure, _CAUSES),
        (_as_a_failure, _UNENDED),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_object_of_more_structures_than_etcd_can_hold_is_not_decoded(
    read: Callable[[bytes], None], text: bytes
) -> None:
    tracemalloc.start()
    try:
        read(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(text)


@pytest.mark.parametrize("pages_of", [100_001, 50_001, 1000])
def test_list_of_more_objects_than_a_cluster_has_is_refused(pages_of: int) -> None:
    pages = Pages(Pod)
    meta, items = b'{"resourceVersion":"9","continue":"more"}', b",".join([b"{}"] * pages_of)
    with pytest.raises(Transient, match="more than 100000 objects"):
        for _ in range(101):
            pages.read(b'{"kind":"PodList","metadata":%b,"items":[%b]}' % (meta, items))


@pytest.mark.parametrize("item", [b"{}", b"1"])
def test_page_of_millions_of_objects_is_refused_before_they_are_separated(item: bytes) -> None:
    body = b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[%b]}' % b",".join([item] * 5_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(TooLong):
            Pages(Pod).read(body)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_page_of_an_object_as_large_as_the_api_server_takes_is_read() -> None:
    """It takes 3 MiB, and not every store of it has etcd's limit: the author of one pod must not hide all others."""
    pod = b'{%b,"annotations":{"a":"%b"}}}' % (_META[:-1], b"," * (3 << 20))
    pages = Pages(Pod)
    pages.read(b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[%b]}' % pod)
    assert [each.metadata.name for each in pages.listing().items] == ["a"]


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "resourceVersion"])
def test_names_of_objects_that_cannot_be_read_are_cut(field: str) -> None:
    text = b'{"kind":"Pod","metadata":{"%b":"%b"},"spec":1}' % (field.encode(), b"a" * 3_000_000)
    pages = Pages(Pod)
    pages.read(b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[%b]}' % text)
    event = read_event(b'{"type":"ADDED","object":%b}' % text, Pod)
    (unread,) = pages.listing().unread
    for meta, fault in ((event.meta, event.fault), (unread.meta, unread.fault)):
        assert fault and len(repr(meta)) < 5000


def test_object_of_as_many_structures_as_etcd_can_hold_is_decoded() -> None:
    secrets = b"{}," * 786_000 + b"{}"  # two bytes each in etcd, of 1.5 MiB
    value = read_object(b'{"kind":"Pod",%b,"spec":{"imagePullSecrets":[%b]}}' % (_META, secrets), Pod, "get")
    assert len(value.spec.image_pull_secrets) == 786_001
