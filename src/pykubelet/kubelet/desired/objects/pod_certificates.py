"""Pod certificates (KEP-4317): for each source the agent creates a key and a PodCertificateRequest for a signer.

Keys stay in memory; after a restart of the agent every pod gets a new one. A certificate is renewed at the time that
its signer sets. A denied or failed request is final for its pod.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import POD_CERTIFICATE_REQUESTS, SERVICE_ACCOUNTS
from pykubelet.base.backoff import Backoff
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency import blocking
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import Permanent, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.objects.plan.trust_bundles import chain
from pykubelet.kubelet.types.ids import PodRef, PodUID, ref_of
from pykubelet.models.certificates_v1beta1 import (
    PodCertificateRequest,
    PodCertificateRequestSpec,
    PodCertificateRequestStatus,
)
from pykubelet.models.core_v1 import Node, Pod, PodCertificateProjection
from pykubelet.models.meta_v1 import ObjectMeta, OwnerReference

_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 30.0
_JITTER: Final = 300.0
_MAX_DELAY: Final = 3600.0
"""Maximum of the growing delays with which a certificate is renewed that is due as soon as it is issued."""
_ISSUED: Final = "Issued"


class ProjectedSource(Struct, frozen=True):
    """A source of a projected volume of a pod."""

    ref: PodRef
    volume: str
    index: int


class KeyAndCertificates(Struct, frozen=True):
    """A key and its certificates, both in PEM."""

    key: bytes
    chain: bytes
    refresh_at: Seconds
    """Monotonic time."""


class _Entry(Struct):
    """State of the certificate of one place."""

    pod: Pod
    source: PodCertificateProjection
    current: KeyAndCertificates | None = None
    key: bytes = b""
    request: str = ""
    """Name of the pending request; empty: no request is pending."""
    refusal: str = ""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the request has been issued, denied or has failed."""


class PodCertificates:
    """The certificates of this node's pods."""

    def __init__(
        self,
        *,
        client: ApiClient,
        touched: Callable[[frozenset[PodUID]], None],
        clock: Clock,
        patience: Seconds,
        rand: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._touched = touched
        self._clock = clock
        self._patience = patience
        self._rand = rand
        self._entries: dict[ProjectedSource, _Entry] = {}
        self._requests: Mapping[Key, PodCertificateRequest] = {}
        """The requests of this node, as of the watch."""
        self._node: Node | None = None
        self._node_known = asyncio.Event()
        self._wanted = asyncio.Event()
        self._at_once = Backoff(_CHECK_SECONDS, _MAX_DELAY)
        self._results = Guard("pod-certificates.results", clock.monotonic)

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        return {"pod-certificate-requests": self._follow(), "pod-certificates": self._renew()}

    def node_seen(self, node: Node) -> None:
        """Take over the Node object, which requests name."""
        self._node = node
        self._node_known.set()

    def release(self, uid: PodUID) -> None:
        """Forget a removed pod. Idempotent."""
        for place in [place for place in self._entries if place.ref.uid == uid]:
            del self._entries[place]
            self._at_once.reset(place)

    async def ready(self, pod: Pod) -> None:
        """Wait for the certificates of the pod's volumes. Raises Transient after the patience has passed."""
        waiting = []
        for place, source in _wanted_by(pod):
            entry = self._entries.setdefault(place, _Entry(pod, source))
            if entry.current is None and not entry.request and not entry.refusal:
                await self._ask(place, entry)
            waiting.append((place, entry))
        try:
            async with asyncio.timeout(self._patience):
                for _, entry in waiting:
                    await entry.settled.wait()
        except TimeoutError as error:
            late = next(entry for _, entry in waiting if not entry.settled.is_set())
            raise Transient(
                f"credential bundle is not issued yet: signer {late.source.signer_name} has not answered "
                f"PodCertificateRequest {ref_of(pod).namespace}/{late.request}"
            ) from error

    def credentials(self, pod: Pod, volume: str, index: int) -> KeyAndCertificates:
        """Return key and certificates of a source. Raises Transient if not issued yet, Permanent if refused."""
        entry = self._entries.get(ProjectedSource(ref_of(pod), volume, index))
        if entry is None or (entry.current is None and not entry.refusal):
            raise Transient("credential bundle is not issued yet")
        if entry.current is None:
            raise Permanent(entry.refusal)
        return entry.current

    # -- requests

    async def _ask(self, place: ProjectedSource, entry: _Entry) -> None:
        self._wanted.set()
        if self._node is None:
            raise Transient("the node is not registered yet; certificates of pods name it")
        ref, account = place.ref, entry.pod.spec.service_account_name or "default"
        found = await self._client.get(SERVICE_ACCOUNTS.at(ref.namespace, account))
        # Imported here: cryptography needs much memory, and few pods use it.
        from pykubelet.kubelet.desired.objects.keys import new_key_and_request

        key, request = await blocking.call("keys", new_key_and_request, entry.source.key_type)
        owner = OwnerReference(api_version="v1", kind="Pod", name=ref.name, uid=ref.uid)
        value = PodCertificateRequest(
            api_version="certificates.k8s.io/v1beta1",
            kind="PodCertificateRequest",
            metadata=ObjectMeta(generate_name="req-", namespace=ref.namespace, owner_references=(owner,)),
            spec=PodCertificateRequestSpec(
                signer_name=entry.source.signer_name,
                pod_name=ref.name,
                pod_uid=ref.uid,
                service_account_name=account,
                service_account_uid=found.metadata.uid,
                node_name=self._node.metadata.name,
                node_uid=self._node.metadata.uid,
                max_expiration_seconds=entry.source.max_expiration_seconds,
                stub_pkcs10_request=request,
                unverified_user_annotations=entry.source.user_annotations,
            ),
        )
        made = await self._client.create(POD_CERTIFICATE_REQUESTS.all(ref.namespace), value)
        entry.key, entry.request = key, made.metadata.name
        # The watch may have delivered a quick signer's result before the name was known here.
        self._process_results()

    async def _follow(self) -> None:
        await self._wanted.wait()
        await self._node_known.wait()
        assert self._node is not None
        select = ObjectSelector(fields=f"spec.nodeName={self._node.metadata.name}")
        await Reflector(
            client=self._client,
            query=Query(POD_CERTIFICATE_REQUESTS.all(), select),
            deliver=self._take,
            clock=self._clock,
        ).run()

    def _take(self, requests: Mapping[Key, PodCertificateRequest]) -> None:
        self._requests = requests
        self._process_results()

    def _process_results(self) -> None:
        """Process the results of pending requests; after one that raises, another certificate is requested."""
        renewed = set()
        for place, entry in self._entries.items():
            request = self._requests.get((place.ref.namespace, entry.request)) if entry.request else None
            with self._results.item(str(place)):
                if request is not None and self._settle(place, entry, request):
                    renewed.add(place.ref.uid)
        if renewed:
            self._touched(frozenset(renewed))

    def _settle(self, place: ProjectedSource, entry: _Entry, request: PodCertificateRequest) -> bool:
        """Process the result of a request; return whether it has one."""
        decided = next((c for c in request.status.conditions if c.type in (_ISSUED, "Denied", "Failed")), None)
        if decided is None:
            return False
        entry.request = ""
        if decided.type == _ISSUED:
            refresh_at = self._clock.monotonic() + self._wait(place, request.status) + self._rand() * _JITTER
            entry.current = KeyAndCertificates(entry.key, chain(request.status.certificate_chain), refresh_at)
        else:
            details = f'reason="{decided.reason}" message="{decided.message}"'
            entry.refusal = f"PodCertificateRequest was permanently {decided.type.lower()}: {details}"
        entry.settled.set()
        return True

    def _wait(self, place: ProjectedSource, status: PodCertificateRequestStatus) -> Seconds:
        """Return the seconds until a new certificate is renewed; the node's clock may be wrong."""
        begin = status.begin_refresh_at.timestamp() if status.begin_refresh_at else 0.0
        wait = begin - self._clock.now()
        if status.not_before is not None:
            wait = min(wait, begin - status.not_before.timestamp())  # the node's clock is behind
        if wait <= 0:
            return self._at_once.next(place, self._clock.monotonic())
        self._at_once.reset(place)
        return wait

    async def _renew(self) -> None:
        """Renew due certificates until cancelled; one that cannot be renewed stays in use."""
        await self._wanted.wait()
        guard = Guard("pod-certificates", self._clock.monotonic)
        while True:
            await self._clock.sleep(_CHECK_SECONDS)
            now = self._clock.monotonic()
            for place, entry in list(self._entries.items()):
                due = entry.current is not None and entry.current.refresh_at <= now
                if not due or entry.request or entry.refusal or not guard.is_due(str(place)):
                    continue
                with guard.item(str(place)):
                    await self._ask(place, entry)


def _wanted_by(pod: Pod) -> Iterator[tuple[ProjectedSource, PodCertificateProjection]]:
    for volume in pod.spec.volumes:
        for index, source in enumerate(volume.projected.sources if volume.projected else ()):
            if source.pod_certificate is not None:
                yield ProjectedSource(ref_of(pod), volume.name, index), source.pod_certificate
