"""Authorization of requests: the API server decides by its rules for this node object (SubjectAccessReview).

In mode AlwaysAllow it is not asked.
"""

from functools import partial
from typing import Final

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.kubelet_api.access.ttlcache import TtlCache
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import ReviewApi
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import AuthConfig, RequestAttributes, User
from pykubelet.models import authorization_v1 as authorization

_BACKOFF: Final[tuple[Seconds, ...]] = (0.5, 0.75)


class Authorizer:
    """Asks the API server, and caches its decisions.

    ``reviews`` None: there is no API server, so mode Webhook allows nothing.
    """

    def __init__(self, *, node_name: str, config: AuthConfig, reviews: ReviewApi | None, clock: Clock) -> None:
        self._node_name = node_name
        self._config = config
        self._reviews = reviews
        self._clock = clock
        self._answers: TtlCache[tuple[object, ...], bool] = TtlCache(
            clock=clock, ttl=lambda allowed: config.allowed_ttl if allowed else config.denied_ttl
        )

    async def allowed(self, user: User, wanted: RequestAttributes) -> bool:
        """Return whether any of the subresources is allowed. Transient: the API server is unavailable."""
        if self._config.always_allow:
            return True
        reviews = self._reviews
        if reviews is None:
            return False
        for subresource in wanted.subresources:
            key = (user.key, wanted.verb, subresource)
            review = self._review(user, wanted.verb, subresource)
            if await self._answers.get(key, partial(self._ask, review, reviews)):
                return True
        return False

    def _review(self, user: User, verb: str, subresource: str) -> authorization.SubjectAccessReview:
        resource = authorization.ResourceAttributes(
            verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node_name
        )
        return authorization.SubjectAccessReview(
            api_version=authorization.API_VERSION,
            kind="SubjectAccessReview",
            spec=authorization.SubjectAccessReviewSpec(
                user=user.name,
                uid=user.uid,
                groups=user.groups,
                extra=dict(user.extra),
                resource_attributes=resource,
            ),
        )

    async def _ask(self, review: authorization.SubjectAccessReview, reviews: ReviewApi) -> bool:
        for pause in (*_BACKOFF, None):
            try:
                status = (await reviews.create_subject_access_review(review)).status
                return status is not None and status.allowed and not status.denied
            except Transient:
                if pause is None:
                    raise
                await self._clock.sleep(pause)
        return False
