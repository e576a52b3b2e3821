import pytest

from pykubelet.base.errors import Transient
from pykubelet.kubelet.serve.kubelet_api.access.authorization import Authorizer
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import AuthConfig, RequestAttributes, User
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.serve.kubelet_api.reviews import FakeReviews, in_time

PROM = User("prom", "u", ("g",), {"scope": ("a",)})
METRICS = RequestAttributes("get", ("metrics",))
PODS = RequestAttributes("get", ("pods", "proxy"))


async def test_the_review_names_user_and_node() -> None:
    reviews = FakeReviews()
    await Authorizer(node_name="node-1", config=AuthConfig(), reviews=reviews, clock=VirtualClock()).allowed(
        PROM, METRICS
    )
    spec = reviews.access_reviews[0].spec
    assert (spec.user, spec.uid, spec.groups, spec.extra) == ("prom", "u", ("g",), {"scope": ("a",)})
    wanted = spec.resource_attributes
    assert wanted is not None
    assert (wanted.verb, wanted.version, wanted.resource, wanted.subresource, wanted.name) == (
        *("get", "v1", "nodes", "metrics", "node-1"),
    )


@pytest.mark.parametrize(("granted", "asked"), [("pods", ["pods"]), ("proxy", ["pods", "proxy"])])
async def test_either_of_the_subresources_is_enough(granted: str, asked: list[str]) -> None:
    reviews = FakeReviews()
    reviews.rights = {("prom", "get", granted)}
    assert await Authorizer(node_name="n", config=AuthConfig(), reviews=reviews, clock=VirtualClock()).allowed(
        PROM, PODS
    )
    found = [r.spec.resource_attributes for r in reviews.access_reviews]
    assert [each.subresource for each in found if each is not None] == asked


async def test_yes_is_kept_five_minutes_and_no_half_a_minute() -> None:
    reviews, clock = FakeReviews(), VirtualClock()
    authorizer = Authorizer(node_name="n", config=AuthConfig(), reviews=reviews, clock=clock)
    assert not await authorizer.allowed(PROM, METRICS)
    reviews.rights = {("prom", "get", "metrics")}
    assert not await authorizer.allowed(PROM, METRICS)
    await clock.advance(31)
    assert await authorizer.allowed(PROM, METRICS)
    reviews.rights = set()
    await clock.advance(299)
    assert await authorizer.allowed(PROM, METRICS)
    await clock.advance(2)
    assert not await authorizer.allowed(PROM, METRICS)


async def test_one_users_answer_is_not_anothers() -> None:
    reviews = FakeReviews()
    reviews.rights = {("prom", "get", "metrics")}
    authorizer = Authorizer(node_name="n", config=AuthConfig(), reviews=reviews, clock=VirtualClock())
    assert await authorizer.allowed(PROM, METRICS)
    assert not await authorizer.allowed(User("eve"), METRICS)
    assert not await authorizer.allowed(PROM, RequestAttributes("create", ("metrics",)))


async def test_always_allow_sends_no_review_and_missing_api_server_denies() -> None:
    clock = VirtualClock()
    assert await Authorizer(node_name="n", config=AuthConfig(always_allow=True), reviews=None, clock=clock).allowed(
        PROM, METRICS
    )
    assert not await Authorizer(node_name="n", config=AuthConfig(), reviews=None, clock=clock).allowed(PROM, METRICS)


async def test_an_api_server_that_is_away_decides_nothing() -> None:
    reviews, clock = FakeReviews(), VirtualClock()
    reviews.failures = 3
    with pytest.raises(Transient):
        await in_time(
            clock, Authorizer(node_name="n", config=AuthConfig(), reviews=reviews, clock=clock).allowed(PROM, METRICS)
        )
