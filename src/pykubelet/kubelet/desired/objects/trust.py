"""ClusterTrustBundles for projected volumes, all followed by one watch as soon as a pod uses one."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import CLUSTER_TRUST_BUNDLES
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.objects.plan.trust_bundles import anchors
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.certificates_v1beta1 import ClusterTrustBundle
from pykubelet.models.core_v1 import ClusterTrustBundleProjection, Pod


class TrustBundles:
    """The bundles and the pods that use them."""

    def __init__(
        self,
        *,
        client: ApiClient,
        touched: Callable[[frozenset[PodUID]], None],
        clock: Clock,
        patience: Seconds,
    ) -> None:
        self._touched = touched
        self._patience = patience
        self._users: set[PodUID] = set()
        self._bundles: Mapping[Key, ClusterTrustBundle] = {}
        self._wanted = asyncio.Event()
        self._read = asyncio.Event()
        self._watch = Reflector(
            client=client, query=Query(CLUSTER_TRUST_BUNDLES.all(), ObjectSelector()), deliver=self._take, clock=clock
        )

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        return {"trust-bundles": self._follow()}

    def release(self, uid: PodUID) -> None:
        """Forget a removed pod. Idempotent."""
        self._users.discard(uid)

    async def ready(self, pod: Pod) -> None:
        """Wait until the bundles have been read, if the pod uses any. Raises Transient."""
        if not _wants(pod):
            return
        self._users.add(ref_of(pod).uid)
        self._wanted.set()
        if self._read.is_set():
            return
        try:
            async with asyncio.timeout(self._patience):
                await self._read.wait()
        except TimeoutError as error:
            fault = self._watch.fault
            if isinstance(fault, NotFound):
                raise Transient(
                    "the API server has no ClusterTrustBundles; it needs certificates.k8s.io/v1beta1 (Kubernetes 1.33)"
                ) from error
            reason = f": {fault}" if fault is not None else ""
            raise Transient(f"ClusterTrustBundles have not yet been read{reason}") from error

    def anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        """Return the certificates of a source as PEM. Raises NotFound, Invalid; Transient if not read yet."""
        if not self._read.is_set():
            raise Transient("ClusterTrustBundles have not yet been read")
        return anchors(self._bundles.values(), source)

    async def _follow(self) -> None:
        await self._wanted.wait()
        await self._watch.run()

    def _take(self, bundles: Mapping[Key, ClusterTrustBundle]) -> None:
        self._bundles = bundles
        first = not self._read.is_set()
        self._read.set()
        if not first and self._users:
            self._touched(frozenset(self._users))


def _wants(pod: Pod) -> bool:
    sources = (source for volume in pod.spec.volumes if volume.projected for source in volume.projected.sources)
    return any(source.cluster_trust_bundle is not None for source in sources)
