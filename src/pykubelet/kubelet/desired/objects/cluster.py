"""`ClusterObjects`: all objects of the API server that pods need besides their own.

ConfigMaps, Secrets, services, runtime classes, tokens, certificates and storage objects. Built in node mode only; the
other stages use it through their own interfaces.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Final, Protocol

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import RUNTIME_CLASSES, SERVICES
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.kubelet.desired.objects.api_objects import PATIENCE, ApiObjects
from pykubelet.kubelet.desired.objects.object_interfaces import Changed, Objects
from pykubelet.kubelet.desired.objects.pod_certificates import PodCertificates
from pykubelet.kubelet.desired.objects.storage import StorageObjects
from pykubelet.kubelet.desired.objects.tokens import ServiceAccountTokens
from pykubelet.kubelet.desired.objects.trust import TrustBundles
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.kubelet.types.updates import is_static
from pykubelet.models.core_v1 import (
    ClusterTrustBundleProjection,
    ConfigMap,
    Node,
    Pod,
    Secret,
    Service,
    ServiceAccountTokenProjection,
)
from pykubelet.models.node_v1 import RuntimeClass

_log = logging.getLogger(__name__)
_EVERYTHING: Final = ObjectSelector()


class PodChangeCallback(Protocol):
    """Called with pods for which an object other than a ConfigMap or Secret (for example a token) has changed."""

    def __call__(self, uids: frozenset[PodUID], /) -> None: ...


class ClusterObjects:
    """``Objects`` of a cluster, and the cluster interfaces of the stage actuate. For one thread."""

    def __init__(
        self, *, client: ApiClient, node: str, local: Objects, touched: PodChangeCallback, clock: Clock
    ) -> None:
        """``node``: name of the node."""
        self._touched = touched
        self._objects = ApiObjects(client=client, local=local, clock=clock)
        self._tokens = ServiceAccountTokens(client=client, clock=clock, renewed=self._renewed)
        self.accounts = self._tokens
        """Service accounts and their tokens, for credential provider plugins."""
        self.storage = StorageObjects(client=client, node=node, tokens=self._tokens, touched=touched, clock=clock)
        """Claims, volumes, attachments and CSI drivers."""
        self._trust = TrustBundles(client=client, touched=touched, clock=clock, patience=PATIENCE)
        self._certificates = PodCertificates(client=client, touched=touched, clock=clock, patience=PATIENCE)
        self._services: Mapping[Key, Service] = {}
        self._classes: Mapping[Key, RuntimeClass] = {}
        self._services_read = asyncio.Event()
        self._classes_read = asyncio.Event()
        self._service_watch = Reflector(
            client=client, query=Query(SERVICES.all(), _EVERYTHING), deliver=self._take_services, clock=clock
        )
        self._class_watch = Reflector(
            client=client, query=Query(RUNTIME_CLASSES.all(), _EVERYTHING), deliver=self._take_classes, clock=clock
        )

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        return {
            "api-objects": self._objects.run(),
            "services": self._service_watch.run(),
            "runtime-classes": self._class_watch.run(),
            "tokens": self._tokens.run(),
            **self.storage.parts(),
            **self._trust.parts(),
            **self._certificates.parts(),
        }

    def use(self, pod: Pod) -> None:
        """Watch the objects of a new or changed pod; static pods use those of manifests."""
        if not is_static(pod):
            self._objects.use(pod)

    def expect(self, pod: Pod) -> None:
        """Request the tokens of an admitted pod ahead of time."""
        ending = pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed")
        if not ending and not is_static(pod):
            self._tokens.expect(pod)

    def release(self, uid: PodUID) -> None:
        """Forget a pod that its source no longer lists. Idempotent."""
        self._objects.release(uid)
        self._tokens.release(uid)
        self._trust.release(uid)
        self._certificates.release(uid)

    def node_seen(self, node: Node) -> None:
        """Take over a new version of the Node object."""
        self.storage.node_seen(node)
        self._certificates.node_seen(node)

    async def ready(self, pod: Pod) -> None:
        """Wait until all objects of the pod have been read; returns at once for a static pod. Raises base errors."""
        if is_static(pod):
            return
        if not self._services_read.is_set():
            await _wait_read(self._services_read, "services", self._service_watch.fault)
        if pod.spec.runtime_class_name and not self._classes_read.is_set():
            await _wait_read(self._classes_read, "runtime classes", self._class_watch.fault)
        await asyncio.gather(
            self._objects.ready(ref_of(pod).uid),
            self._tokens.ready(pod),
            self._trust.ready(pod),
            self._certificates.ready(pod),
        )

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """Return the ConfigMap; raises NotFound."""
        return self._objects.get_config_map(namespace, name)

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return the Secret; raises NotFound."""
        return self._objects.get_secret(namespace, name)

    def subscribe(self, callback: Changed) -> Callable[[], None]:
        """Call ``callback`` with changed ConfigMaps and Secrets from now on; call the result to unsubscribe."""
        return self._objects.subscribe(callback)

    def token(self, pod: Pod, projection: ServiceAccountTokenProjection) -> bytes:
        """Return the token for a projected volume; raises Transient if there is none yet."""
        return self._tokens.token(pod, projection)

    def trust_anchors(self, source: ClusterTrustBundleProjection) -> bytes:
        """Return the certificates for a projected volume as PEM; raises NotFound, Invalid, Transient."""
        return self._trust.anchors(source)

    def pod_certificate(self, pod: Pod, volume: str, index: int) -> tuple[bytes, bytes]:
        """Return key and certificates for a source of a projected volume as PEM; raises Transient, Permanent."""
        found = self._certificates.credentials(pod, volume, index)
        return found.key, found.chain

    @property
    def services(self) -> Iterable[Service]:
        """Return all services of the cluster."""
        return self._services.values()

    def runtime_handler(self, name: str) -> str:
        """Return the handler of a RuntimeClass; raises NotFound."""
        found = self._classes.get(("", name))
        if found is None:
            if not self._classes_read.is_set():
                raise Transient(f"RuntimeClass {name!r}: not read from the API server yet")
            raise NotFound(f'runtimeclass.node.k8s.io "{name}" not found')
        return found.handler

    def _take_services(self, services: Mapping[Key, Service]) -> None:
        self._services = services
        self._services_read.set()

    def _take_classes(self, classes: Mapping[Key, RuntimeClass]) -> None:
        self._classes = classes
        self._classes_read.set()

    def _renewed(self, uid: PodUID) -> None:
        self._touched(frozenset({uid}))


async def _wait_read(read: asyncio.Event, what: str, fault: object) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            await read.wait()
    except TimeoutError as error:
        reason = f": {fault}" if fault is not None else ""
        raise Transient(f"{what} have not yet been read at least once{reason}") from error
