"""Authentication of requests: by client certificate, by bearer token (TokenReview), or as anonymous user."""

import hashlib
import secrets
import ssl
from collections.abc import Mapping
from typing import Final, TypeAlias

from aiohttp import web

from pykubelet.base.clock import Clock
from pykubelet.base.errors import Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.serve.common.slots import request_source
from pykubelet.kubelet.serve.kubelet_api.access.token_review_budget import ReviewBudget
from pykubelet.kubelet.serve.kubelet_api.access.ttlcache import TtlCache
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_interfaces import ReviewApi
from pykubelet.kubelet.serve.kubelet_api.kubelet_api_types import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    AuthConfig,
    User,
)
from pykubelet.models import authentication_v1 as authentication

PeerCert: TypeAlias = Mapping[str, object]
"""A verified certificate in the form of ``ssl.SSLSocket.getpeercert``."""

_MAX_TOKEN: Final = 64 * 1024
_BACKOFF: Final[tuple[Seconds, ...]] = (0.5, 0.75)
"""Seconds between attempts at the API server; the client waits meanwhile."""


class Authenticator:
    """Tries the authenticators in the Go kubelet's order. ``reviews`` None: no API server, so no token is valid."""

    def __init__(self, *, config: AuthConfig, reviews: ReviewApi | None, clock: Clock) -> None:
        self._config = config
        self._reviews = reviews
        self._clock = clock
        self._salt = secrets.token_bytes(16)
        self._users: TtlCache[bytes, User | None] = TtlCache(clock=clock, ttl=lambda _: config.token_ttl)
        self._budget = ReviewBudget(clock)

    async def authenticate(self, request: web.Request) -> User | None:
        """Return the user; None: answer 401.

        Transient: the API server is unavailable. Overloaded: too many TokenReviews.
        """
        user = certificate_user(peer_certificate(request), self._clock.now())
        if user is None:
            token = bearer_token(request.headers.get("Authorization", ""))
            if token and self._config.token_webhook and self._reviews is not None:
                user = await self._by_token(token, request_source(request), self._reviews)
                if user is None:
                    return None
        if user is not None:
            return User(user.name, user.uid, _with(user.groups, AUTHENTICATED), user.extra)
        return User(ANONYMOUS, groups=(UNAUTHENTICATED,)) if self._config.anonymous else None

    async def _by_token(self, token: str, source: str, reviews: ReviewApi) -> User | None:
        if not token.isascii():
            return None  # tokens are ASCII (RFC 6750)
        # Tokens are secrets: only a salted hash stays in memory.
        key = hashlib.sha256(self._salt + token.encode()).digest()

        async def ask() -> User | None:
            self._budget.spend(source, key)
            user = await self._review(token, reviews)
            self._budget.record(key, confirmed=user is not None)
            return user

        return await self._users.get(key, ask)

    async def _review(self, token: str, reviews: ReviewApi) -> User | None:
        review = authentication.TokenReview(
            api_version=authentication.API_VERSION,
            kind="TokenReview",
            spec=authentication.TokenReviewSpec(token=token),
        )
        for pause in (*_BACKOFF, None):
            try:
                return _reviewed(await reviews.create_token_review(review))
            except Transient:
                if pause is None:
                    raise
                await self._clock.sleep(pause)
        return None


def peer_certificate(request: web.Request) -> PeerCert | None:
    """Return the client certificate that TLS has verified against the client CA; None without one."""
    transport = request.transport
    found = None if transport is None else transport.get_extra_info("peercert")
    return found if isinstance(found, Mapping) and found else None


def certificate_user(certificate: PeerCert | None, now: float) -> User | None:
    """Return the user that a certificate names: common name and organizations of its subject (pure).

    None after the certificate's end (``now``: seconds since the epoch), as TLS looks at it only when a connection
    begins, and for an empty name, as upstream.
    """
    subject = certificate.get("subject") if certificate else None
    if certificate is None or not isinstance(subject, tuple):
        return None
    end = certificate.get("notAfter")
    if isinstance(end, str) and ssl.cert_time_to_seconds(end) < now:
        return None
    pairs = [pair for part in subject for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    if not names or not names[-1]:
        return None
    return User(names[-1], groups=tuple(value for key, value in pairs if key == "organizationName"))


def bearer_token(header: str) -> str:
    """Return the token of an ``Authorization`` header; empty if it is missing or longer than 64 KiB (pure)."""
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= _MAX_TOKEN else ""


def _reviewed(review: authentication.TokenReview) -> User | None:
    status = review.status
    if not status.authenticated or status.user is None:
        return None
    user = status.user
    return User(user.username, user.uid, tuple(user.groups), dict(user.extra))


def _with(groups: tuple[str, ...], group: str) -> tuple[str, ...]:
    return groups if group in groups else (*groups, group)
