"""A fake API server that knows some tokens and permissions."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

from msgspec.structs import replace

from pykubelet.base.errors import Transient
from pykubelet.models.authentication_v1 import TokenReview, TokenReviewStatus, UserInfo
from pykubelet.models.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from pykubelet.testing.clock import VirtualClock

T = TypeVar("T")


async def in_time(clock: VirtualClock, work: Coroutine[None, None, T], seconds: float = 5.0) -> T:
    """Return the result of an awaitable that waits on the clock."""
    task = asyncio.get_running_loop().create_task(work)
    await clock.advance(seconds)
    return await task


class FakeReviews:
    """``users`` by token; ``rights`` are (user, verb, subresource)."""

    def __init__(self) -> None:
        self.users: dict[str, UserInfo] = {}
        self.rights: set[tuple[str, str, str]] = set()
        self.token_reviews: list[TokenReview] = []
        self.access_reviews: list[SubjectAccessReview] = []
        self.failures = 0
        """So many calls fail first."""

    async def create_token_review(self, review: TokenReview) -> TokenReview:
        self.token_reviews.append(review)
        self._fail()
        user = self.users.get(review.spec.token)
        return replace(review, status=TokenReviewStatus(authenticated=user is not None, user=user))

    async def create_subject_access_review(self, review: SubjectAccessReview) -> SubjectAccessReview:
        self.access_reviews.append(review)
        self._fail()
        wanted = review.spec.resource_attributes
        assert wanted is not None
        allowed = (review.spec.user, wanted.verb, wanted.subresource) in self.rights
        return replace(review, status=SubjectAccessReviewStatus(allowed=allowed))

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Transient("the API server is not responding")
