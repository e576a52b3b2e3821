from contextlib import suppress

import pytest
from aiohttp.test_utils import make_mocked_request

from pykubelet.base.errors import Transient
from pykubelet.kubelet.serve.kubelet_api.access.authentication import Authenticator, bearer_token, certificate_user
from pykubelet.kubelet.serve.kubelet_api.access.token_review_budget import PER_SOURCE, TOTAL, Overloaded, ReviewBudget
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import AuthConfig, User
from pykubelet.models.authentication_v1 import UserInfo
from pykubelet.testing.clock import VirtualClock
from tests.unit.kubelet.serve.kubelet_api.reviews import FakeReviews, in_time


async def asked(authenticator: Authenticator, token: str = "") -> User | None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return await authenticator.authenticate(make_mocked_request("GET", "/pods", headers=headers))


def with_tokens(**users: UserInfo) -> FakeReviews:
    reviews = FakeReviews()
    reviews.users = users
    return reviews


async def test_a_token_is_asked_of_the_api_server_once_in_its_time() -> None:
    clock = VirtualClock()
    reviews = with_tokens(good=UserInfo(username="prom", uid="7", groups=("scrapers",), extra={"k": ("v",)}))
    authenticator = Authenticator(config=AuthConfig(token_ttl=120.0), reviews=reviews, clock=clock)
    for _ in range(3):
        assert await asked(authenticator, "good") == User(
            "prom", "7", ("scrapers", "system:authenticated"), {"k": ("v",)}
        )
    assert len(reviews.token_reviews) == 1
    assert reviews.token_reviews[0].kind == "TokenReview"
    await clock.advance(121)
    await asked(authenticator, "good")
    assert len(reviews.token_reviews) == 2


async def test_unknown_token_is_rejected_even_with_anonymous_access() -> None:
    reviews = with_tokens()
    authenticator = Authenticator(config=AuthConfig(anonymous=True), reviews=reviews, clock=VirtualClock())
    assert await asked(authenticator, "bad") is None
    assert await asked(authenticator, "bad") is None
    assert len(reviews.token_reviews) == 1


async def test_without_credentials_only_anonymous_access_helps() -> None:
    reviews = with_tokens()
    clock = VirtualClock()
    assert await asked(Authenticator(config=AuthConfig(), reviews=reviews, clock=clock)) is None
    found = await asked(Authenticator(config=AuthConfig(anonymous=True), reviews=reviews, clock=clock))
    assert found == User("system:anonymous", groups=("system:unauthenticated",))
    assert not reviews.token_reviews


async def test_tokens_are_not_asked_for_where_the_webhook_is_off_or_there_is_no_api_server() -> None:
    reviews, clock = with_tokens(good=UserInfo(username="prom")), VirtualClock()
    assert (
        await asked(Authenticator(config=AuthConfig(token_webhook=False), reviews=reviews, clock=clock), "good") is None
    )
    assert await asked(Authenticator(config=AuthConfig(), reviews=None, clock=clock), "good") is None
    assert not reviews.token_reviews


async def test_the_api_server_is_tried_three_times() -> None:
    reviews, clock = with_tokens(good=UserInfo(username="prom")), VirtualClock()
    authenticator = Authenticator(config=AuthConfig(), reviews=reviews, clock=clock)
    reviews.failures = 2
    assert await in_time(clock, asked(authenticator, "good")) is not None
    reviews.failures = 3
    with pytest.raises(Transient):
        await in_time(clock, asked(authenticator, "other"))


async def test_made_up_tokens_cost_few_reviews_and_are_to_be_retried() -> None:
    reviews, clock = with_tokens(good=UserInfo(username="prom")), VirtualClock()
    authenticator = Authenticator(config=AuthConfig(token_ttl=10.0), reviews=reviews, clock=clock)
    assert await asked(authenticator, "good") is not None
    refused = 0
    for number in range(200):
        try:
            assert await asked(authenticator, f"made-up-{number}") is None
        except Overloaded as error:
            refused += 1
            assert error.retry_after
    assert len(reviews.token_reviews) <= 1 + PER_SOURCE[1]
    assert refused >= 200 - PER_SOURCE[1]
    # A token that was confirmed before is reviewed again, however many others are made up.
    await clock.advance(11)
    for number in range(200, 400):
        with suppress(Overloaded):
            await asked(authenticator, f"made-up-{number}")
    before = len(reviews.token_reviews)
    assert await asked(authenticator, "good") is not None
    assert len(reviews.token_reviews) == before + 1


async def test_token_that_is_refused_after_all_is_limited_like_made_up_ones() -> None:
    budget = ReviewBudget(VirtualClock())
    budget.record(b"a", confirmed=True)
    for _ in range(2 * TOTAL[1]):
        budget.spend("10.0.0.1", b"a")
    budget.record(b"a", confirmed=False)
    with pytest.raises(Overloaded, match=r"from 10\.0\.0\.1"):
        for _ in range(PER_SOURCE[1] + 1):
            budget.spend("10.0.0.1", b"a")


async def test_source_that_makes_up_tokens_does_not_hinder_others() -> None:
    clock = VirtualClock()
    budget = ReviewBudget(clock)
    with pytest.raises(Overloaded):
        for number in range(1000):
            budget.spend("10.0.0.1", f"{number}".encode())
    budget.spend("10.0.0.2", b"other")
    with pytest.raises(Overloaded, match=r"^too many unknown tokens;"):
        for number in range(1000):
            budget.spend(f"10.0.1.{number}", b"other")
    await clock.advance(10)
    budget.spend("10.0.0.1", b"again")


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        (((("commonName", "admin"),),), User("admin")),
        (
            ((("organizationName", "system:masters"),), (("organizationName", "b"),), (("commonName", "admin"),)),
            User("admin", groups=("system:masters", "b")),
        ),
        (((("organizationName", "system:masters"),),), None),
        (((("organizationName", "system:masters"),), (("commonName", ""),)), None),
        ((), None),
    ],
)
def test_a_certificate_names_user_and_groups(subject: object, user: User | None) -> None:
    assert certificate_user({"subject": subject, "notAfter": "Jan  1 00:00:10 1970 GMT"}, 9.0) == user


def test_missing_certificate_gives_no_user() -> None:
    assert certificate_user(None, 0.0) is None
    assert certificate_user({}, 0.0) is None


def test_certificate_that_has_ended_since_its_connection_began_gives_no_user() -> None:
    certificate = {"subject": ((("commonName", "jane"),),), "notAfter": "Jan  1 00:00:10 1970 GMT"}
    assert certificate_user(certificate, 10.0) == User("jane")
    assert certificate_user(certificate, 10.5) is None


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", ""),
        ("Bearer", ""),
        ("", ""),
        ("Bearer " + "x" * 100_000, ""),
    ],
)
def test_the_header_holds_a_token(header: str, token: str) -> None:
    assert bearer_token(header) == token
