"""Service account tokens for projected volumes: requested of the API server, bound to their pod, renewed in time.

(KEP-1205, KEP-542.) A token is renewed after four fifths of its lifetime, and after a day at the latest. Those for
image pulls (KEP-4412) are replaced at the same age, but only when a pull needs them.
"""

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from pykubelet.apiclient import ApiClient
from pykubelet.apiclient.resources import SERVICE_ACCOUNTS
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.single_flight import SingleFlight
from pykubelet.base.errors import PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.models.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from pykubelet.models.core_v1 import Pod, ServiceAccount, ServiceAccountTokenProjection

_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 30.0
_RENEW_AT: Final = 0.8
_MAX_AGE: Final = 24 * 3600.0
_JITTER: Final = 10.0
_DEFAULT_LIFE: Final = 3600
_MAX_EARLY_REQUESTS: Final = 4
"""Maximum number of concurrent requests ahead of time; the other tokens are requested with their pods' volumes."""
_MAX_PULL_TOKENS: Final = 1000
"""Tokens for image pulls that are kept."""


class _TokenKey(Struct, frozen=True):
    """The properties that identify a token."""

    ref: PodRef
    account: str
    audience: str
    life: int


class _Token(Struct, frozen=True):
    """A token and its times, which are monotonic except ``expires``."""

    value: bytes
    expires: Seconds
    """Unix time of expiry, as the API server returned it."""
    ends_at: Seconds
    renew_at: Seconds


class ServiceAccountTokens:
    """The tokens of this node's pods, in memory only."""

    def __init__(
        self,
        *,
        client: ApiClient,
        clock: Clock,
        renewed: Callable[[PodUID], None],
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._clock = clock
        self._rand = rand
        self._renewed = renewed
        self._tokens: dict[_TokenKey, _Token] = {}
        self._early: dict[_TokenKey, asyncio.Task[None]] = {}
        self._pull_tokens: OrderedDict[_TokenKey, _Token] = OrderedDict()
        self._pull_requests: SingleFlight[_TokenKey, _Token] = SingleFlight()
        self._guard = Guard("tokens", clock.monotonic)
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Renew tokens until cancelled; one that cannot be renewed stays in use until it expires."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                await self._clock.sleep(_CHECK_SECONDS)
                now = self._clock.monotonic()
                late = [key for key, token in self._tokens.items() if token.renew_at <= now]
                for wanted in self._guard.due(late):
                    with self._guard.item(str(wanted)):
                        await self._renew(wanted)

    def expect(self, pod: Pod) -> None:
        """Request the tokens of an admitted pod ahead of time, a few at a time, while other things are prepared."""
        for wanted in _wanted_by(pod):
            busy = len(self._early) >= _MAX_EARLY_REQUESTS
            if self._group is None or busy or wanted in self._early or wanted in self._tokens:
                continue
            self._early[wanted] = self._group.create_task(self._fetch_early(wanted), name=f"token of {wanted.ref}")

    async def ready(self, pod: Pod) -> None:
        """Get the missing tokens of the pod's volumes. Raises the API server's error."""
        for wanted in _wanted_by(pod):
            if (early := self._early.get(wanted)) is not None:
                await asyncio.wait((early,))
            token = self._tokens.get(wanted)
            if token is None or token.ends_at <= self._clock.monotonic():
                await self._ask(wanted)

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """Return the token of a source of a projected volume. Raises Transient if there is none yet."""
        wanted = _key(pod, projection)
        token = self._tokens.get(wanted)
        if token is None:
            raise Transient(f"no token of service account {wanted.account!r} yet: the API server has not given one")
        return token.value

    async def fetch(self, pod: Pod, audience: str, life: int | None) -> tuple[bytes, Seconds]:
        """Return a token for a storage driver and its expiry (Unix seconds); it is renewed as the others are."""
        wanted = _TokenKey(ref_of(pod), pod.spec.service_account_name or "default", audience, life or _DEFAULT_LIFE)
        token = self._tokens.get(wanted)
        if token is None or token.ends_at <= self._clock.monotonic():
            await self._ask(wanted)
            token = self._tokens[wanted]
        return token.value, token.expires

    async def service_account(self, namespace: str, name: str) -> ServiceAccount:
        """Read a service account, for credential provider plugins; raises NotFound and other errors of the API."""
        return await self._client.get(SERVICE_ACCOUNTS.at(namespace, name))

    async def image_pull_token(self, pod: Pod, audience: str) -> str:
        """Return a token of the pod's account for credential provider plugins; raises errors of the API.

        A token that could not be replaced in time is used until it expires.
        """
        wanted = _TokenKey(ref_of(pod), pod.spec.service_account_name or "default", audience, _DEFAULT_LIFE)
        token = self._pull_tokens.get(wanted)
        if token is None or token.renew_at <= self._clock.monotonic():
            try:
                token = await self._pull_requests.run(wanted, lambda: self._request_for_pull(wanted))
            except PykubeletError as error:
                if token is None or token.ends_at <= self._clock.monotonic():
                    raise
                fields = {"pod": str(wanted.ref), "account": wanted.account, "error": str(error)}
                _log.warning(
                    "service account token: renewal for an image pull failed; the old one is used", extra=fields
                )
        return token.value.decode()

    def release(self, uid: PodUID) -> None:
        """Forget a removed pod. Idempotent."""
        for wanted in [key for key in self._tokens if key.ref.uid == uid]:
            del self._tokens[wanted]
        for wanted in [key for key in self._pull_tokens if key.ref.uid == uid]:
            del self._pull_tokens[wanted]
        for wanted in [key for key in self._early if key.ref.uid == uid]:
            self._early.pop(wanted).cancel()

    async def _fetch_early(self, wanted: _TokenKey) -> None:
        try:
            with self._guard.item(str(wanted)):
                await self._try_early(wanted)
        finally:
            self._early.pop(wanted, None)

    async def _try_early(self, wanted: _TokenKey) -> None:
        try:
            await self._ask(wanted)
        except PykubeletError as error:
            # The set-up of the pod's volumes requests the token again, and reports the error.
            _log.debug(
                "service account token: request ahead of time failed",
                extra={"pod": str(wanted.ref), "error": str(error)},
            )

    async def _request_for_pull(self, wanted: _TokenKey) -> _Token:
        token, now = await self._request(wanted), self._clock.monotonic()
        for old in [key for key, each in self._pull_tokens.items() if each.ends_at <= now]:
            del self._pull_tokens[old]
        self._pull_tokens[wanted] = token
        self._pull_tokens.move_to_end(wanted)
        while len(self._pull_tokens) > _MAX_PULL_TOKENS:
            self._pull_tokens.popitem(last=False)
        return token

    async def _renew(self, wanted: _TokenKey) -> None:
        try:
            await self._ask(wanted)
        except PykubeletError as error:
            fields = {"pod": str(wanted.ref), "account": wanted.account, "error": str(error)}
            _log.warning("service account token: renewal failed; retrying", extra=fields)
            return
        self._renewed(wanted.ref.uid)

    async def _ask(self, wanted: _TokenKey) -> None:
        self._tokens[wanted] = await self._request(wanted)

    async def _request(self, wanted: _TokenKey) -> _Token:
        ref = wanted.ref
        request = TokenRequest(
            api_version="authentication.k8s.io/v1",
            kind="TokenRequest",
            spec=TokenRequestSpec(
                audiences=(wanted.audience,) if wanted.audience else (),
                expiration_seconds=wanted.life,
                bound_object_ref=BoundObjectReference(api_version="v1", kind="Pod", name=ref.name, uid=ref.uid),
            ),
        )
        target = SERVICE_ACCOUNTS.at(ref.namespace, wanted.account, "token").typed(TokenRequest)
        begun, now = self._clock.monotonic(), self._clock.now()
        answer = await self._client.create(target, request)
        end = answer.status.expiration_timestamp
        expires = end.timestamp() if end is not None else now + wanted.life
        # The lifetime granted may differ from that requested. It runs on the API server's clock, so jumps of the
        # node's clock do not change it.
        life = expires - now
        renew = begun + min(life * _RENEW_AT, _MAX_AGE) - self._rand() * _JITTER
        return _Token(answer.status.token.encode(), expires, begun + life, renew)


def _wanted_by(pod: Pod) -> Iterator[_TokenKey]:
    for volume in pod.spec.volumes:
        for source in volume.projected.sources if volume.projected else ():
            if source.service_account_token is not None:
                yield _key(pod, source.service_account_token)


def _key(pod: Pod, projection: ServiceAccountTokenProjection) -> _TokenKey:
    life = projection.expiration_seconds or _DEFAULT_LIFE
    return _TokenKey(ref_of(pod), pod.spec.service_account_name or "default", projection.audience, life)
