"""The client against a faulty API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.apiclient import (
    ApiClient,
    ClusterConfig,
    Expired,
    Forbidden,
    ObjectSelector,
    PatchKind,
    Unauthorized,
    User,
)
from pykubelet.apiclient.resources import CONFIG_MAPS, PODS
from pykubelet.base.clock import Clock, SystemClock
from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.models.core_v1 import ConfigMap
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.testing.clock import VirtualClock
from pykubelet.testing.fake_api import FakeApi, Fault
from pykubelet.testing.fake_api.store import Place

THING = ConfigMap(api_version="v1", kind="ConfigMap", metadata=ObjectMeta(name="x"), data={"a": "b"})
ALL, ONE = CONFIG_MAPS.all("default"), CONFIG_MAPS.at("default", "x")


class EagerClock(SystemClock):
    """A clock that records sleeps and skips them."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await super().sleep(0)


@pytest.fixture
async def fake() -> AsyncIterator[FakeApi]:
    async with FakeApi() as api:
        yield api


@pytest.fixture
async def client(fake: FakeApi) -> AsyncIterator[ApiClient]:
    made = ApiClient(fake.config, EagerClock())
    yield made
    await made.close()


@asynccontextmanager
async def client_of(fake: FakeApi, user: User, clock: Clock) -> AsyncIterator[ApiClient]:
    made = ApiClient(ClusterConfig(fake.config.server, user=user), clock)
    try:
        yield made
    finally:
        await made.close()


def slept(client: ApiClient) -> list[float]:
    clock = client._clock
    assert isinstance(clock, EagerClock)
    return clock.slept


async def test_429_with_retry_after_is_retried(fake: FakeApi, client: ApiClient) -> None:
    fake.faults = [Fault("POST", status=429, retry_after=3, times=2)]
    await client.create(ALL, THING)
    assert fake.count("POST") == 3
    assert [3.0 <= delay <= 3.3 for delay in slept(client)] == [True, True]


async def test_retry_delays_grow_with_jitter(fake: FakeApi, client: ApiClient) -> None:
    for _ in range(5):
        fake.faults = [Fault("GET", status=500, times=4)]
        with pytest.raises(Transient):
            await client.get(ONE)
    delays = slept(client)
    assert [len(delays), len(set(delays))] == [15, 15]
    for index, delay in enumerate(delays):
        assert 0.25 * 2 ** (index % 3) <= delay <= 0.5 * 2 ** (index % 3)


@pytest.mark.parametrize(("number", "expected"), [(0.0, [0.25, 0.5, 1.0]), (1.0, [0.5, 1.0, 2.0])])
async def test_retry_delays_are_spread_by_the_given_numbers(
    fake: FakeApi, number: float, expected: list[float]
) -> None:
    client = ApiClient(fake.config, EagerClock(), rand=lambda: number)
    fake.faults = [Fault("GET", status=500, times=3)]
    with pytest.raises(NotFound):
        await client.get(ONE)
    assert slept(client) == expected
    await client.close()


async def test_connections_are_reused(fake: FakeApi, client: ApiClient) -> None:
    for _ in range(5):
        await client.list(ALL)
    assert len(fake.peers) == 1
    await asyncio.gather(*(client.list(ALL) for _ in range(4)))
    assert len(fake.peers) <= 4
    await asyncio.gather(*(client.list(ALL) for _ in range(4)))
    assert len(fake.peers) <= 4


async def test_post_is_not_retried_without_retry_after(fake: FakeApi, client: ApiClient) -> None:
    fake.faults = [Fault("POST", status=500)]
    with pytest.raises(Transient):
        await client.create(ALL, THING)
    assert fake.count("POST") == 1


async def test_get_is_retried_a_limited_number_of_times(fake: FakeApi, client: ApiClient) -> None:
    await client.create(ALL, THING)
    fake.faults = [Fault("GET", status=500, times=2), Fault("GET", drop=True)]
    assert (await client.get(ONE)).data == {"a": "b"}
    fake.faults = [Fault("GET", status=503, times=99)]
    with pytest.raises(Transient, match="made to fail"):
        await client.get(ONE)
    assert fake.count("GET") == 4 + 4


async def test_long_retry_after_is_passed_to_the_caller(fake: FakeApi, client: ApiClient) -> None:
    fake.faults = [Fault("GET", status=429, retry_after=300)]
    with pytest.raises(Transient) as caught:
        await client.get(ONE)
    assert caught.value.retry_after == 300.0 and fake.count("GET") == 1


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (404, NotFound), (410, Expired), (401, Unauthorized)])
async def test_http_statuses_become_errors(
    fake: FakeApi, client: ApiClient, status: int, kind: type[Exception]
) -> None:
    fake.faults = [Fault("GET", status=status, times=9)]
    with pytest.raises(kind, match="get configmaps default/x"):
        await client.get(ONE)


async def test_unreachable_server_is_reported_without_retries(fake: FakeApi, client: ApiClient) -> None:
    await fake.go_away()
    with pytest.raises(Transient, match="cannot connect"):
        await client.get(ONE)
    assert slept(client) == []
    await fake.serve_again()
    with pytest.raises(NotFound):
        await client.get(ONE)


async def test_list_reads_all_pages_and_skips_undecodable_objects(
    fake: FakeApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        fake.store.create(Place("/api/v1", "configmaps", "default"), {"metadata": {"name": f"n{number}"}, "data": {}})
    monkeypatch.setattr("pykubelet.apiclient.client._PAGE", 3)
    fake.faults = [Fault("continue=3", corrupt=True)]
    listed = await client.list(ALL)
    assert [each.metadata.name for each in listed.items] == [f"n{number}" for number in range(7)]
    assert [each.meta.name for each in listed.unread] == ["broken"]
    assert fake.count("GET") == 3


async def test_changed_token_file_is_reloaded(fake: FakeApi, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    fake.token = "old"
    client = ApiClient(ClusterConfig(fake.config.server, user=User(token_file=str(path))), EagerClock())
    assert (await client.list(PODS.all())).items == ()
    fake.token = "newer"
    path.write_text("newer\n")
    # Rejected once, the credentials are reloaded at once, without waiting for the next check of the file.
    assert (await client.list(PODS.all())).items == ()
    assert fake.count("GET") == 3
    await client.close()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"two\nlines", "\u20ac".encode(), b"a\0b"])
async def test_token_that_cannot_be_sent_is_an_error_until_its_file_changes(
    fake: FakeApi, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    fake.token = "good"
    async with client_of(fake, User(token_file=str(path)), EagerClock()) as client:
        with pytest.raises(Invalid, match=f"{path}: .*token"):
            await client.list(PODS.all())
        path.write_text("good\n")
        assert (await client.list(PODS.all())).items == ()
    assert fake.count("GET") == 1


async def test_token_in_the_kubeconfig_that_cannot_be_sent_is_an_error(fake: FakeApi) -> None:
    async with client_of(fake, User("two\nlines"), EagerClock()) as client:
        with pytest.raises(Invalid, match="token"):
            await client.list(PODS.all())


async def test_token_file_that_becomes_unusable_leaves_the_known_token_in_use(fake: FakeApi, tmp_path: Path) -> None:
    path, clock = tmp_path / "token", VirtualClock()
    path.write_text("good")
    fake.token = "good"
    async with client_of(fake, User(token_file=str(path)), clock) as client:
        assert (await client.list(PODS.all())).items == ()
        path.write_bytes(b"\xff\xfe")
        await clock.advance(60)
        assert (await client.list(PODS.all())).items == ()


async def test_patch_sends_its_content_type(fake: FakeApi, client: ApiClient) -> None:
    await client.create(ALL, THING)
    assert (await client.patch(ONE, {"data": {"c": "d"}}, PatchKind.MERGE)).data == {"a": "b", "c": "d"}


async def test_silent_watch_ends_without_error(
    fake: FakeApi, client: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API servers send no bookmarks for collections that have never changed."""
    monkeypatch.setattr("pykubelet.apiclient.client._WATCH_SILENCE", 0.05)
    version = (await client.list(CONFIG_MAPS.all())).resource_version
    assert [event async for event in client.watch(CONFIG_MAPS.all(), ObjectSelector(), version, 30)] == []
    assert fake.count("GET") == 2


async def test_requests_are_observed(fake: FakeApi) -> None:
    seen: list[tuple[str, str, str]] = []

    def observe(method: str, host: str, code: str, seconds: float) -> None:
        assert seconds >= 0
        seen.append((method, host, code))

    client = ApiClient(fake.config, EagerClock(), observe=observe)
    fake.faults = [Fault("GET", status=500, times=1), Fault("POST", drop=True, times=1)]
    with pytest.raises(Transient):
        await client.create(ALL, THING)
    await client.create(ALL, THING)
    await client.get(ONE)
    await client.close()
    host = fake.config.server.removeprefix("http://")
    assert seen == [
        ("POST", host, "<error>"),
        ("POST", host, "201"),
        ("GET", host, "500"),
        ("GET", host, "200"),
    ]
