"""Answers of an API server, or of what stands before it, that are none: they are errors, and change nothing."""

import json
import time
from typing import Any

import pytest
from aiohttp import ClientResponse

from pykubelet.apiclient import ApiClient, ObjectSelector, WatchType, answers
from pykubelet.apiclient import client as client_module
from pykubelet.apiclient import pages as pages_module
from pykubelet.apiclient.errors import error_of
from pykubelet.apiclient.pages import Pages
from pykubelet.apiclient.resources import PODS
from pykubelet.apiclient.watch import Lines, Listing, read_event, read_object
from pykubelet.base.errors import Transient
from pykubelet.models.core_v1 import Pod, PodSpec
from pykubelet.models.meta_v1 import ObjectMeta, Status, StatusDetails
from pykubelet.testing.fake_api import FakeApi, Fault
from pykubelet.testing.fake_api.store import Place
from tests.unit.apiclient.clocks import QuickClock

POD: dict[str, Any] = {"kind": "Pod", "metadata": {"name": "a", "namespace": "default", "uid": "1"}}


def encoded(value: object) -> bytes:
    return json.dumps(value).encode()


def pods(*items: object, kind: str = "PodList", version: str = "9", **meta: Any) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": version, **meta}
    return encoded({"kind": kind, "metadata": metadata, "items": items})


def one_page(page: bytes) -> Listing[Pod]:
    """The list of one page."""
    pages = Pages(Pod)
    assert not pages.read(page)
    return pages.listing()


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        encoded({"kind": "Status", "status": "Success"}),
        encoded(POD),
        pods(kind="NodeList"),
        pods(version=""),
        pods(POD, remainingItemCount=1),
        b"<html></html>",
        b"",
    ],
)
def test_list_of_something_else_or_without_its_rest_is_an_error(body: bytes) -> None:
    with pytest.raises(Transient):
        Pages(Pod).read(body)


def test_list_without_items_is_one() -> None:
    listing = one_page(encoded({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": None}))
    assert (listing.items, listing.resource_version) == ((), "9")


@pytest.mark.parametrize("value", [{}, {**POD, "kind": "Endpoints"}, {**POD, "kind": ""}])
@pytest.mark.parametrize("kind", list(WatchType))
def test_event_with_another_object_is_an_error(kind: str, value: object) -> None:
    with pytest.raises(Transient):
        read_event(encoded({"type": kind, "object": value}), Pod)


@pytest.mark.parametrize("missing", ["name", "uid"])
def test_object_without_name_or_uid_is_not_decodable(missing: str) -> None:
    value = {**POD, "metadata": {**POD["metadata"], missing: ""}}
    event = read_event(encoded({"type": "MODIFIED", "object": value}), Pod)
    assert event.object is None and event.fault
    assert len(one_page(pods(value)).unread) == 1


@pytest.mark.parametrize("body", [b"{}", encoded({"kind": "Status"}), b"<html></html>", b""])
def test_answer_that_is_another_object_is_an_error(body: bytes) -> None:
    with pytest.raises(Transient):
        read_object(body, Pod, "get pods default/a")


def test_selection_is_checked_by_its_fields() -> None:
    pod = Pod(metadata=ObjectMeta(name="a"), spec=PodSpec(node_name="n"))
    assert ObjectSelector().matches(pod) and ObjectSelector(fields="spec.nodeName=n,metadata.name=a").matches(pod)
    assert not ObjectSelector(fields="spec.nodeName=other").matches(pod)


async def test_answers_without_end_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_BODY", 100_000)
    monkeypatch.setattr(client_module, "_MAX_PAGES", 20)
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            for answer in (b" " * 200_000, pods({**POD, "spec": {"hostname": "h" * 9000}}, **{"continue": "again"})):
                fake.faults = [Fault("GET", answer=answer, times=100)]
                with pytest.raises(Transient):
                    await client.list(PODS.all())
                assert fake.count("GET") <= 20
                fake.requests.clear()
        finally:
            await client.close()


async def test_list_of_large_objects_is_read_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    # The author of a few pods of 1.5 MiB must not keep the agent from the others.
    monkeypatch.setattr(answers, "MAX_BODY", 100_000)
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            for number in range(20):
                name = f"p{number}"
                pod = {"kind": "Pod", "metadata": {"name": name}, "spec": {"hostname": "h" * 9000}}
                fake.store.create(Place("/api/v1", "pods", "default", name), pod)
            assert len((await client.list(PODS.all())).items) == 20
        finally:
            await client.close()


async def test_list_of_objects_with_many_values_is_read_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "_MAX_COMMAS", 1000)
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            for number in range(20):
                name = f"p{number}"
                pod = {"kind": "Pod", "metadata": {"name": name, "annotations": {"a": "," * 300}}}
                fake.store.create(Place("/api/v1", "pods", "default", name), pod)
            assert len((await client.list(PODS.all())).items) == 20
        finally:
            await client.close()


async def test_list_that_takes_too_long_to_arrive_is_read_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    # 64 MiB take longer than a request may on many links: the author of large pods must not keep out the others.
    read_body, timeouts = answers.read_body, 0

    async def slow(response: ClientResponse, what: str) -> bytes:
        nonlocal timeouts
        if len(body := await read_body(response, what)) > 100_000:
            timeouts += 1
            raise TimeoutError
        return body

    monkeypatch.setattr(client_module, "read_body", slow)
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            for number in range(20):
                name = f"p{number}"
                pod = {"kind": "Pod", "metadata": {"name": name}, "spec": {"hostname": "h" * 9000}}
                fake.store.create(Place("/api/v1", "pods", "default", name), pod)
            assert len((await client.list(PODS.all())).items) == 20
        finally:
            await client.close()
    assert timeouts > 0


async def test_list_beyond_the_bound_is_read_without_its_largest_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    # Pods of 1.5 MiB in etcd have up to seven times as much in JSON: their author must not keep the agent from others.
    monkeypatch.setattr(answers, "MAX_BODY", 100_000)
    monkeypatch.setattr(answers, "_SHORT", 1000)
    monkeypatch.setattr(pages_module, "MAX_TOTAL", 200_000)
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            for number in range(40):
                name, size = f"p{number:02}", 60_000 if number % 2 else 100
                pod = {"kind": "Pod", "metadata": {"name": name}, "spec": {"hostname": "h" * size}}
                fake.store.create(Place("/api/v1", "pods", "default", name), pod)
            found = await client.list(PODS.all())
        finally:
            await client.close()
    held = {each.metadata.name for each in found.items}
    assert held >= {f"p{number:02}" for number in range(0, 40, 2)} and len(held) == 22
    assert {each.meta.name for each in found.unread} == {f"p{number:02}" for number in range(40)} - held
    assert all(each.meta.uid and each.weight > 60_000 for each in found.unread)


async def test_pages_grow_again_behind_large_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few large objects in front must not multiply the requests for the others."""
    monkeypatch.setattr(answers, "MAX_BODY", 100_000)
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            for number in range(400):
                size = 60_000 if number < 2 else 10
                pod = {"kind": "Pod", "metadata": {"name": f"p{number:03}"}, "spec": {"hostname": "h" * size}}
                fake.store.create(Place("/api/v1", "pods", "default", f"p{number:03}"), pod)
            assert len((await client.list(PODS.all())).items) == 400
            assert fake.count("GET") < 20
        finally:
            await client.close()


@pytest.mark.parametrize("levels", [600, 9000])
async def test_object_with_deep_managed_fields_is_read_and_affects_no_other(levels: int) -> None:
    # Any author of an object can write them, and the API server accepts 10,000 levels.
    fields = b'{"f:a":' * levels + b"null" + b"}" * levels
    meta = {**POD["metadata"], "name": "deep", "managedFields": [{"fieldsV1": "DEEP"}]}
    deep = {**POD, "metadata": meta, "spec": {"nodeName": "n"}}
    listed = pods(POD, deep, POD).replace(b'"DEEP"', fields)
    event = encoded({"type": "MODIFIED", "object": deep}).replace(b'"DEEP"', fields) + b"\n"
    async with FakeApi() as fake:
        client = ApiClient(fake.config, QuickClock())
        try:
            fake.faults = [
                Fault("watch=true", answer=event * 2),
                Fault("/deep", answer=encoded(deep)),
                Fault("GET", answer=listed),
            ]
            watched = [each async for each in client.watch(PODS.all(), ObjectSelector(), "1", 10.0)]
            found = [*(await client.list(PODS.all())).items, await client.get(PODS.at("default", "deep"))]
        finally:
            await client.close()
    assert [each.metadata.name for each in found] == ["a", "deep", "a", "deep"]
    assert [each.object and each.object.spec.node_name for each in watched] == ["n", "n"]


def test_managed_fields_of_any_content_leave_their_object_readable() -> None:
    # Go reads the year 0, Python does not.
    value = {**POD, "metadata": {**POD["metadata"], "managedFields": [{"time": "0000-01-01T00:00:00Z"}]}}
    assert [each.metadata.managed_fields for each in one_page(pods(value)).items] == [()]


@pytest.mark.parametrize("kind", [WatchType.MODIFIED, WatchType.DELETED])
def test_event_with_metadata_that_cannot_be_decoded_still_names_its_object(kind: str) -> None:
    meta = {**POD["metadata"], "resourceVersion": "7", "creationTimestamp": "0000-01-01T00:00:00Z"}
    event = read_event(encoded({"type": kind, "object": {**POD, "metadata": meta}}), Pod)
    assert event.object is None and event.fault
    assert event.meta == ObjectMeta(name="a", namespace="default", uid="1", resource_version="7")


def test_lines_are_cut_in_time_that_grows_with_the_data() -> None:
    begun = time.process_time()
    assert list(Lines().feed(b"\n" * (1 << 18))) == []  # cut off one by one, it took seventeen seconds
    assert time.process_time() - begun < 5
    cut = Lines()
    assert [line for chunk in (b"a", b"b\nc\n", b"\n d", b"\n") for line in cut.feed(chunk)] == [b"ab", b"c", b" d"]


@pytest.mark.parametrize(("seconds", "expected"), [(10**400, 300.0), (-5, 0.0), (7, 7.0)])
def test_delay_that_the_server_asks_for_is_bounded(seconds: int, expected: float) -> None:
    error = error_of(Status(code=429, details=StatusDetails(retry_after_seconds=seconds)), "list pods")
    assert isinstance(error, Transient) and error.retry_after == expected
