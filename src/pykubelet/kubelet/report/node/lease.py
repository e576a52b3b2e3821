"""The node's heartbeat: a Lease that is renewed every quarter of its duration (KEP-589).

Intervals are measured with the monotonic clock, so a clock that is set forward or back neither skips renewals nor
floods the API server with them.
"""

import logging
import random
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from pykubelet.apiclient import AlreadyExists, ApiClient
from pykubelet.apiclient.resources import LEASES, NODES
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Conflict, NotFound, PykubeletError, Transient
from pykubelet.base.units import Seconds
from pykubelet.models.coordination_v1 import Lease, LeaseSpec
from pykubelet.models.meta_v1 import ObjectMeta, OwnerReference
from pykubelet.models.scalars import micro_time_from_unix

_log = logging.getLogger(__name__)

NAMESPACE: Final = "kube-node-lease"
_QUICK_RETRIES: Final = 5
_JITTER: Final = 0.04


def renewal_period(duration: int) -> Seconds:
    """Return the time from one renewal to the next; also the patience with one request, so that none holds up two."""
    return duration / 4


class LeaseRenewer:
    """Creates and renews the Lease ``kube-node-lease/NODE``."""

    def __init__(
        self, *, client: ApiClient, node: str, duration: int, clock: Clock, rand: Callable[[], float] = random.random
    ) -> None:
        self._client = client
        self._node = node
        self._duration = duration
        self._clock = clock
        self._rand = rand
        self._lease: Lease | None = None
        self._backoff = Backoff(0.2, 7.0, jitter=0.5)
        self.renewed_at: float | None = None
        """Monotonic time of the last successful renewal."""

    async def run(self) -> None:
        """Renew until cancelled."""
        every, guard = renewal_period(self._duration), Guard("node.lease", self._clock.monotonic)
        while True:
            begun = self._clock.monotonic()
            with guard.item(self._node):
                await self.renew()
            passed = self._clock.monotonic() - begun
            await self._clock.sleep(max(0.0, every * (1.0 + _JITTER * self._rand()) - passed))

    async def renew(self) -> bool:
        """Renew the lease with a few quick retries; return whether it was renewed. Errors are logged."""
        for attempt in range(1, _QUICK_RETRIES + 1):
            try:
                await self._renew()
            except PykubeletError as error:
                self._lease = None if isinstance(error, Conflict | NotFound) else self._lease
                extra = {"lease": self._node, "error": str(error), "attempt": attempt}
                _log.warning("node lease not renewed", extra=extra)
                if attempt == _QUICK_RETRIES:
                    break
                delay = self._backoff.next("", self._clock.monotonic())
                if isinstance(error, Transient) and error.retry_after is not None:
                    delay = max(delay, min(error.retry_after, self._duration / 4))
                await self._clock.sleep(delay)
                continue
            self._backoff.reset("")
            self.renewed_at = self._clock.monotonic()
            return True
        return False

    async def _renew(self) -> None:
        if self._lease is None:
            self._lease = await self._find()
            if self._lease is None:
                return
        spec = replace(
            self._lease.spec,
            holder_identity=self._node,
            lease_duration_seconds=self._duration,
            renew_time=micro_time_from_unix(self._clock.now()),
        )
        meta = self._lease.metadata
        if not meta.owner_references:
            meta = replace(meta, owner_references=await self._owner())
        wanted = replace(self._lease, api_version="coordination.k8s.io/v1", kind="Lease", metadata=meta, spec=spec)
        self._lease = await self._client.update(LEASES.at(NAMESPACE, self._node), wanted)

    async def _find(self) -> Lease | None:
        """Return the existing lease; None if there was none and it has been created, and so renewed.

        The lease is not created before its node: without an owner it would never be deleted.
        """
        try:
            return await self._client.get(LEASES.at(NAMESPACE, self._node))
        except NotFound:
            pass
        lease = Lease(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            metadata=ObjectMeta(name=self._node, namespace=NAMESPACE, owner_references=await self._owner()),
            spec=LeaseSpec(
                holder_identity=self._node,
                lease_duration_seconds=self._duration,
                renew_time=micro_time_from_unix(self._clock.now()),
            ),
        )
        try:
            self._lease = await self._client.create(LEASES.all(NAMESPACE), lease)
        except AlreadyExists:
            return await self._client.get(LEASES.at(NAMESPACE, self._node))
        return None

    async def _owner(self) -> tuple[OwnerReference, ...]:
        """Return the node as owner reference, so that the lease is deleted with it. NotFound: not registered yet."""
        try:
            node = await self._client.get(NODES.at("", self._node))
        except NotFound as error:
            raise NotFound(f"cannot create the lease of node {self._node}: the node is not registered yet") from error
        return (OwnerReference(api_version="v1", kind="Node", name=self._node, uid=node.metadata.uid),)
