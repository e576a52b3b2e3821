"""Gets a certificate and keeps it valid: asks for it, waits until it is approved and signed, stores it, and so on."""

import asyncio
import hashlib
import logging
import math
import random
from collections.abc import Callable, Mapping
from typing import Final

from pykubelet.apiclient.certificates.decide import is_valid, rotate_at
from pykubelet.apiclient.certificates.request import signing_request
from pykubelet.apiclient.certificates.store import CertificateStore
from pykubelet.apiclient.certificates.types import CertificatePair, Template
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
_LOOK_EVERY: Final = 60.0
"""The wall clock may jump, so the time of renewal is looked at in short steps."""


class CertificateManager:
    """One certificate. ``template`` is asked before each request, as the node's addresses may change; None: later."""

    def __init__(
        self, client: ApiClient, store: CertificateStore, template: Callable[[], Template | None], clock: Clock
    ) -> None:
        self._client = client
        self._store = store
        self._template = template
        self._clock = clock
        self._chance = random.random()
        self._subscribers: list[Callable[[], None]] = []
        self._usable = False
        self._ends: Seconds | None = None

    def seconds_left(self) -> Seconds:
        """Until the certificate expires, negative after that; infinite if there is none."""
        return math.inf if self._ends is None else float(int(self._ends - self._clock.now()))

    def current(self) -> CertificatePair | None:
        """The pair in force, as last looked at; None: there is none that is valid."""
        return self._store.pair if self._usable else None

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Have a new certificate told."""
        self._subscribers.append(changed)

    async def run(self) -> None:
        """Keep the certificate valid until cancelled; errors are logged and outlived."""
        guard = Guard("certificates", self._clock.monotonic)
        backoff = Backoff(_FIRST_DELAY, _MAX_DELAY, jitter=0.1)
        while True:
            with guard.item("renewal") as attempt:
                await self._look(backoff)
            if attempt.error is not None:
                await self._clock.sleep(max(_FIRST_DELAY, guard.delay("renewal")))

    async def _look(self, backoff: Backoff) -> None:
        """Ask for a certificate if one is due, or wait a while."""
        wait = await self._until_due()
        if wait > 0:
            await self._clock.sleep(min(wait, _LOOK_EVERY))
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
            raise Transient("the certificate has expired by this node's clock as soon as it was issued")
        except PykubeletError as error:
            delay = backoff.next("", self._clock.monotonic())
            told = {"subject": template.common_name, "signer": template.signer, "error": str(error)}
            _log.warning("certificate not renewed, trying again", extra=told)
            await self._clock.sleep(delay)

    async def request(self, template: Template, patience: Seconds = APPROVAL_SECONDS) -> None:
        """Ask for a certificate, wait for it and take it into force.

        Raises Permanent when it is denied, Transient when nobody signs it in time, and the API server's errors.
        """
        key = await blocking.call_to_end("certificates", self._store.pending_key)
        request = signing_request(key, template)
        name = await self._ask(request, key, template)
        certificate = await self._signed(name, patience)
        await blocking.call_to_end("certificates", self._store.put, certificate, key, self._clock.now())
        self._usable = True
        self._chance = random.random()
        _log.info("certificate issued", extra={"subject": template.common_name, "signer": template.signer})
        for changed in tuple(self._subscribers):
            changed()

    async def _until_due(self) -> Seconds:
        """Seconds until a new certificate has to be asked for."""
        validity = await blocking.call_to_end("certificates", self._store.validity)
        now = self._clock.now()
        self._ends = None if validity is None else validity.not_after
        self._usable = is_valid(validity, now)
        if validity is None or not self._usable:
            return 0.0
        return rotate_at(validity, self._chance) - now

    async def _ask(self, request: bytes, key: bytes, template: Template) -> str:
        """Make the request's object, or find the one of this key that is there already; its name."""
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
            _log.info("certificate was asked for before, waiting for it", extra={"request": name})
        else:
            _log.info("certificate asked for, waiting until it is approved", extra={"request": name})
        return name

    async def _signed(self, name: str, patience: Seconds) -> bytes:
        """The certificate of a request, when somebody has approved and signed it."""
        done: asyncio.Future[CertificateSigningRequest] = asyncio.get_running_loop().create_future()

        def deliver(items: Mapping[Key, CertificateSigningRequest]) -> None:
            for value in items.values():
                if not done.done() and (value.status.certificate or _refusal(value)):
                    done.set_result(value)

        query = Query(SIGNING_REQUESTS.all(), Select(fields=f"metadata.name={name}"))
        reflector = Reflector(self._client, query, deliver, self._clock)
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(reflector.run(), name=f"watch {name}")
            try:
                async with asyncio.timeout(patience):
                    value = await done
            except TimeoutError:
                value = None
            finally:
                watch.cancel()
        if value is None:
            reason = f": {reflector.fault}" if reflector.fault else ""
            raise Transient(
                f"nobody has signed the certificate request {name} within {patience:.0f} s{reason}; "
                f"approve it with: kubectl certificate approve {name}"
            )
        if refusal := _refusal(value):
            await blocking.call_to_end("certificates", self._store.drop_pending)
            raise Permanent(f"the certificate request {name} was refused: {refusal}")
        return value.status.certificate


def _refusal(value: CertificateSigningRequest) -> str:
    """Why there will be no certificate; empty: there may be one."""
    refused = [c for c in value.status.conditions if c.type in ("Denied", "Failed")]
    return f"{refused[0].type}: {refused[0].reason} {refused[0].message}".strip() if refused else ""
