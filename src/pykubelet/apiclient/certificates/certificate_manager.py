"""Keeps one certificate valid: requests it, waits for approval and signing, stores it, renews it in time."""

import asyncio
import hashlib
import logging
import math
import random
from collections.abc import Callable, Mapping
from typing import Final

from pykubelet.apiclient.certificates.certificate_types import (
    CertificatePair,
    NoRenewalObserver,
    RenewalObserver,
    Template,
)
from pykubelet.apiclient.certificates.plan.renewal import is_valid, rotate_at, satisfies
from pykubelet.apiclient.certificates.request import signing_request
from pykubelet.apiclient.certificates.store import CertificateStore
from pykubelet.apiclient.client import ApiClient
from pykubelet.apiclient.errors import AlreadyExists, Forbidden, Unauthorized
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.reflector import Query, Reflector
from pykubelet.apiclient.resources import SIGNING_REQUESTS
from pykubelet.apiclient.select import ObjectSelector
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.concurrency.wakeup import Wakeup
from pykubelet.base.errors import NotFound, Permanent, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.models.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from pykubelet.models.meta_v1 import ObjectMeta

_log = logging.getLogger(__name__)

APPROVAL_SECONDS: Final = 900.0
_FIRST_DELAY: Final = 2.0
_MAX_DELAY: Final = 128.0
LOST_SECONDS: Final = 300.0
"""Seconds without a valid certificate after which an agent that has no other credentials ends, as upstream."""
_LOOK_EVERY: Final = 10.0
_CHECK_EVERY: Final = 60.0
"""Seconds between two checks whether the renewal is due; short, since the wall clock may jump."""


class CertificateManager:
    """Manages one certificate.

    ``template`` returns what the certificate has to say, which may change with the node's addresses (call `poke` then);
    None: not known yet. ``bootstrap`` makes a client for requests while there is no valid certificate; it returns None
    without such credentials, blocks, and may raise base errors.
    """

    def __init__(
        self,
        *,
        client: ApiClient,
        store: CertificateStore,
        template: Callable[[], Template | None],
        clock: Clock,
        bootstrap: Callable[[], ApiClient | None] | None = None,
        observer: RenewalObserver | None = None,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._store = store
        self._template = template
        self._clock = clock
        self._bootstrap = bootstrap
        self._observer: RenewalObserver = observer or NoRenewalObserver()
        self._rand = rand
        self._wakeup = Wakeup(clock)
        self._server_healthy = False
        """Whether the API server responded to the last request."""
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

    def poke(self) -> None:
        """Compare the certificate with the template at once: the template may have changed."""
        self._wakeup.wake()

    async def end_when_lost(self, after: Seconds = LOST_SECONDS) -> None:
        """Raise Permanent when there was no valid certificate for ``after`` seconds although the API server responds.

        The process ends then, and its next start can use new initial credentials. Source: upstream ``UpdateTransport``.
        """
        valid_at, logged = self._clock.monotonic(), False
        while self._is_valid_now() or self._clock.monotonic() - valid_at < after or not self._server_healthy:
            if self._is_valid_now():
                valid_at, logged = self._clock.monotonic(), False
            elif not logged and self._clock.monotonic() - valid_at >= after:
                logged = True
                _log.error(
                    "no valid client certificate, and the API server does not respond; a restart may be necessary"
                )
            await self._clock.sleep(_LOOK_EVERY)
        raise Permanent(
            f"there was no valid client certificate for {after:.0f} s although the API server responds; ending, "
            "to start with new credentials: see that its certificate requests are approved, or provide a bootstrap "
            "kubeconfig with a valid token"
        )

    def _is_valid_now(self) -> bool:
        return self._ends is not None and self._ends > self._clock.now()

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
        self._wakeup.clear()
        wait = await self._until_due()
        if wait > 0:
            await self._wakeup.sleep(min(wait, _CHECK_EVERY))
            return
        template = self._template()
        if template is None:
            await self._wakeup.sleep(_FIRST_DELAY)
            return
        try:
            if not await self.request(template):
                return
            if await self._until_due() > 0 or self._template() != template:
                backoff.reset("")
                return
            if self._usable:
                raise Transient("the issued certificate lacks requested names or addresses; check the signer")
            raise Transient("the issued certificate is already expired by this node's clock; check the clock")
        except PykubeletError as error:
            self._observer.renewal_failed()
            delay = backoff.next("", self._clock.monotonic())
            fields = {"subject": template.common_name, "signer": template.signer, "error": str(error)}
            _log.warning("certificate not renewed; retrying", extra=fields)
            await self._clock.sleep(delay)

    async def request(self, template: Template, within: Seconds = APPROVAL_SECONDS) -> bool:
        """Request a certificate, wait for it and store it; return False if the template has changed meanwhile.

        Permanent: it is denied. Transient: it is not signed within that many seconds, or before the certificate in use
        ends, if there are other credentials then. Also errors of the API server.
        """
        key = await blocking.call_to_end("certificates", self._store.pending_key)
        request = signing_request(key, template)
        made = self._bootstrap if not self._usable else None
        other = await blocking.call("certificates", made) if made is not None else None
        client = other or self._client
        if self._usable and self._bootstrap is not None and self._ends is not None:
            within = min(within, self._ends - self._clock.now())
        try:
            name = await self._create_request(client, request, key=key, template=template)
            certificate = await self._wait_signed(client, name, within=within, template=template)
        finally:
            if other is not None:
                await other.close()
        if certificate is None:
            return False
        before = await blocking.call_to_end("certificates", self._store.validity)
        await blocking.call_to_end("certificates", self._store.put, certificate, key, self._clock.now())
        if before is not None:
            self._observer.replaced(self._clock.now() - before.not_before)
        self._usable = True
        self._chance = self._rand()
        _log.info("certificate issued", extra={"subject": template.common_name, "signer": template.signer})
        for changed in tuple(self._subscribers):
            changed()
        return True

    async def _until_due(self) -> Seconds:
        """Return the seconds until a new certificate has to be requested."""
        contents = await blocking.call_to_end("certificates", self._store.contents)
        validity = None if contents is None else contents.validity
        now = self._clock.now()
        self._ends = None if validity is None else validity.not_after
        self._usable = is_valid(validity, now)
        if contents is None or validity is None or not self._usable:
            return 0.0
        template = self._template()
        if template is not None and not satisfies(contents, template):
            return 0.0
        return rotate_at(validity, self._chance) - now

    async def _create_request(self, client: ApiClient, request: bytes, *, key: bytes, template: Template) -> str:
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
            await client.create(SIGNING_REQUESTS.all(), value)
        except AlreadyExists:
            self._server_healthy = True
            _log.info("certificate request exists already; waiting for approval", extra={"request": name})
        except PykubeletError as error:
            self._server_healthy = isinstance(error, Unauthorized | Forbidden | NotFound)
            raise
        else:
            self._server_healthy = True
            _log.info("certificate requested; waiting for approval", extra={"request": name})
        return name

    async def _wait_signed(self, client: ApiClient, name: str, *, within: Seconds, template: Template) -> bytes | None:
        """Wait until a request is approved and signed; return the certificate. None: the template has changed."""
        done: asyncio.Future[CertificateSigningRequest] = asyncio.get_running_loop().create_future()

        def deliver(items: Mapping[Key, CertificateSigningRequest]) -> None:
            for value in items.values():
                if not done.done() and (value.status.certificate or _rejection(value)):
                    done.set_result(value)

        query = Query(SIGNING_REQUESTS.all(), ObjectSelector(fields=f"metadata.name={name}"))
        reflector = Reflector(client=client, query=query, deliver=deliver, clock=self._clock)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(reflector.run(), name=f"watch {name}")
            change = group.create_task(self._template_changed(template), name=f"template of {name}")
            try:
                await asyncio.wait((done, change), timeout=within, return_when=asyncio.FIRST_COMPLETED)
                changed = change.done()
            finally:
                watch.cancel()
                change.cancel()
        if not done.done():
            if changed:
                _log.info("certificate request outdated: the node's names or addresses have changed")
                return None
            reason = f": {reflector.fault}" if reflector.fault else ""
            raise Transient(
                f"the certificate request {name} was not signed within {within:.0f} s{reason}; "
                f"approve it with: kubectl certificate approve {name}"
            )
        value = done.result()
        if rejection := _rejection(value):
            await blocking.call_to_end("certificates", self._store.drop_pending)
            raise Permanent(f"the certificate request {name} was rejected: {rejection}")
        return value.status.certificate

    async def _template_changed(self, template: Template) -> None:
        """Wait until another certificate is needed than the template describes."""
        while self._template() in (None, template):
            self._wakeup.clear()
            await self._wakeup.sleep(None)


def _rejection(value: CertificateSigningRequest) -> str:
    """Return why the request is denied or failed; empty: it may still be signed."""
    refused = [c for c in value.status.conditions if c.type in ("Denied", "Failed")]
    return f"{refused[0].type}: {refused[0].reason} {refused[0].message}".strip() if refused else ""
