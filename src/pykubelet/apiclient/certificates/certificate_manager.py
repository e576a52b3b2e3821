"""Keeps one certificate valid: requests it, waits for approval and signing, stores it, renews it in time."""

import asyncio
import hashlib
import logging
import math
import random
from collections.abc import Callable, Mapping
from typing import Final

from pykubelet.apiclient.certificates.certificate_types import CertificatePair, Template
from pykubelet.apiclient.certificates.plan.renewal import is_valid, rotate_at
from pykubelet.apiclient.certificates.request import signing_request
from pykubelet.apiclient.certificates.store import CertificateStore
from pykubelet.apiclient.client import ApiClient, Select
from pykubelet.apiclient.errors import AlreadyExists
from pykubelet.apiclient.reflector import Key, Query, Reflector
from pykubelet.apiclient.resources import SIGNING_REQUESTS
from pykubelet.base import blocking
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.errors import Permanent, PykubeletError, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.models.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from pykubelet.models.meta_v1 import ObjectMeta

_log = logging.getLogger(__name__)

APPROVAL_SECONDS: Final = 900.0
_FIRST_DELAY: Final = 2.0
_MAX_DELAY: Final = 128.0
_CHECK_EVERY: Final = 60.0
"""Seconds between two checks whether the renewal is due; short, since the wall clock may jump."""


class CertificateManager:
    """Manages one certificate.

    ``template`` is called before each request, since the node's addresses may change; None: not known yet.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        store: CertificateStore,
        template: Callable[[], Template | None],
        clock: Clock,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._store = store
        self._template = template
        self._clock = clock
        self._rand = rand
        self._chance = rand()
        self._subscribers: list[Callable[[], None]] = []
        self._usable = False
        self._ends: Seconds | None = None

    def seconds_left(self) -> Seconds:
        """Return the seconds until the certificate expires, negative after that; infinite without one."""
        return math.inf if self._ends is None else float(int(self._ends - self._clock.now()))

    def current(self) -> CertificatePair | None:
        """Return the pair in force, as of the last check; None: no valid one."""
        return self._store.pair if self._usable else None

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` after each new certificate."""
        self._subscribers.append(changed)

    async def run(self) -> None:
        """Keep the certificate valid until cancelled. Errors are logged and retried."""
        guard = Guard("certificates", self._clock.monotonic)
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.1)
        while True:
            with guard.item("renewal") as attempt:
                await self._renew_if_due(backoff)
            if attempt.error is not None:
                await self._clock.sleep(max(_FIRST_DELAY, guard.delay("renewal")))

    async def _renew_if_due(self, backoff: Backoff) -> None:
        """Request a certificate if one is due, else wait a while."""
        wait = await self._until_due()
        if wait > 0:
            await self._clock.sleep(min(wait, _CHECK_EVERY))
            return
        template = self._template()
        if template is None:
            await self._clock.sleep(_FIRST_DELAY)
            return
        try:
            await self.request(template)
            if await self._until_due() > 0:
                backoff.reset("")
                return
            raise Transient("the issued certificate is already expired by this node's clock; check the clock")
        except PykubeletError as error:
            delay = backoff.next("", self._clock.monotonic())
            fields = {"subject": template.common_name, "signer": template.signer, "error": str(error)}
            _log.warning("certificate not renewed; retrying", extra=fields)
            await self._clock.sleep(delay)

    async def request(self, template: Template, within: Seconds = APPROVAL_SECONDS) -> None:
        """Request a certificate, wait for it and store it.

        Permanent: it is denied. Transient: it is not signed within that many seconds. Also errors of the API server.
        """
        key = await blocking.call_to_end("certificates", self._store.pending_key)
        request = signing_request(key, template)
        name = await self._create_request(request, key, template)
        certificate = await self._wait_signed(name, within)
        await blocking.call_to_end("certificates", self._store.put, certificate, key, self._clock.now())
        self._usable = True
        self._chance = self._rand()
        _log.info("certificate issued", extra={"subject": template.common_name, "signer": template.signer})
        for changed in tuple(self._subscribers):
            changed()

    async def _until_due(self) -> Seconds:
        """Return the seconds until a new certificate has to be requested."""
        validity = await blocking.call_to_end("certificates", self._store.validity)
        now = self._clock.now()
        self._ends = None if validity is None else validity.not_after
        self._usable = is_valid(validity, now)
        if validity is None or not self._usable:
            return 0.0
        return rotate_at(validity, self._chance) - now

    async def _create_request(self, request: bytes, key: bytes, template: Template) -> str:
        """Create the CertificateSigningRequest, or find the existing one of this key; return its name."""
        identity = b"\0".join((key, repr(template).encode()))
        name = f"node-csr-{hashlib.sha256(identity).hexdigest()[:43]}"
        value = CertificateSigningRequest(
            api_version="certificates.k8s.io/v1",
            kind="CertificateSigningRequest",
            metadata=ObjectMeta(name=name),
            spec=CertificateSigningRequestSpec(request=request, signer_name=template.signer, usages=template.usages),
        )
        try:
            await self._client.create(SIGNING_REQUESTS.all(), value)
        except AlreadyExists:
            _log.info("certificate request exists already; waiting for approval", extra={"request": name})
        else:
            _log.info("certificate requested; waiting for approval", extra={"request": name})
        return name

    async def _wait_signed(self, name: str, within: Seconds) -> bytes:
        """Wait until a request is approved and signed; return the certificate."""
        done: asyncio.Future[CertificateSigningRequest] = asyncio.get_running_loop().create_future()

        def deliver(items: Mapping[Key, CertificateSigningRequest]) -> None:
            for value in items.values():
                if not done.done() and (value.status.certificate or _rejection(value)):
                    done.set_result(value)

        query = Query(SIGNING_REQUESTS.all(), Select(fields=f"metadata.name={name}"))
        reflector = Reflector(client=self._client, query=query, deliver=deliver, clock=self._clock)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(reflector.run(), name=f"watch {name}")
            try:
                async with asyncio.timeout(within):
                    value = await done
            except TimeoutError:
                value = None
            finally:
                watch.cancel()
        if value is None:
            reason = f": {reflector.fault}" if reflector.fault else ""
            raise Transient(
                f"the certificate request {name} was not signed within {within:.0f} s{reason}; "
                f"approve it with: kubectl certificate approve {name}"
            )
        if rejection := _rejection(value):
            await blocking.call_to_end("certificates", self._store.drop_pending)
            raise Permanent(f"the certificate request {name} was rejected: {rejection}")
        return value.status.certificate


def _rejection(value: CertificateSigningRequest) -> str:
    """Return why the request is denied or failed; empty: it may still be signed."""
    refused = [c for c in value.status.conditions if c.type in ("Denied", "Failed")]
    return f"{refused[0].type}: {refused[0].reason} {refused[0].message}".strip() if refused else ""
