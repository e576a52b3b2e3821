"""Storage objects of the API server: claims, volumes, attachments, CSIDrivers, and secrets of volumes.

A node may read claims, volumes and attachments that its pods use by name, but may not watch them, so they are read when
a pod needs them. CSIDriver objects are few; all are watched as soon as one is needed.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager

from pykubelet.apiclient import ApiClient, Forbidden, ObjectSelector, PatchKind, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import (
    CSI_DRIVERS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    VOLUME_ATTACHMENTS,
)
from pykubelet.base.clock import Clock
from pykubelet.base.errors import Invalid, NotFound, Transient
from pykubelet.kubelet.desired.objects.api_objects import PATIENCE
from pykubelet.kubelet.desired.objects.plan.attachments import not_attached
from pykubelet.kubelet.desired.objects.tokens import ServiceAccountTokens
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret
from pykubelet.models.scalars import time_from_unix
from pykubelet.models.storage_v1 import CSIDriver, TokenRequest


class StorageObjects:
    """The cluster interface of the volume manager. For one thread."""

    def __init__(
        self,
        *,
        client: ApiClient,
        node: str,
        tokens: ServiceAccountTokens,
        touched: Callable[[frozenset[PodUID]], None],
        clock: Clock,
    ) -> None:
        """``node``: name of the node."""
        self._client = client
        self._node = node
        self._tokens = tokens
        self._touched = touched
        self._drivers: Mapping[Key, CSIDriver] = {}
        self._wanted = asyncio.Event()
        self._read = asyncio.Event()
        self._driver_watch = Reflector(
            client=client, query=Query(CSI_DRIVERS.all(), ObjectSelector()), deliver=self._take_drivers, clock=clock
        )
        self._labels: dict[str, str] | None = None
        """Labels of the node; None until its object has been read."""
        self._attached: frozenset[str] = frozenset()
        """Volumes that are in use and attached."""
        self._node_news = asyncio.Event()

    def parts(self) -> dict[str, Coroutine[None, None, None]]:
        """Return the core tasks by name."""
        return {"csi-drivers": self._follow_drivers()}

    def node_seen(self, node: Node) -> None:
        """Take over a new version of the Node object, whose status lists the attached volumes."""
        self._labels = dict(node.metadata.labels)
        self._attached = _attached(node)
        self._node_news.set()
        self._node_news = asyncio.Event()

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        """Read a claim. Raises NotFound, Transient."""
        return await self._client.get(PERSISTENT_VOLUME_CLAIMS.at(namespace, name))

    async def volume(self, name: str) -> PersistentVolume:
        """Read a volume. Raises NotFound, Transient."""
        return await self._client.get(PERSISTENT_VOLUMES.at("", name))

    async def node_labels(self) -> Mapping[str, str]:
        """Return the node's labels. Raises Transient if the Node object is not read soon."""
        try:
            async with asyncio.timeout(PATIENCE):
                while self._labels is None:
                    await self._node_news.wait()
        except TimeoutError as error:
            raise Transient("the Node object has not been read yet, whose labels the volume has to match") from error
        return self._labels

    async def patch_claim(self, claim: PersistentVolumeClaim, patch: dict[str, object]) -> PersistentVolumeClaim:
        """Change a claim's status by a strategic merge patch; raises Conflict if the patch names an old version."""
        target = PERSISTENT_VOLUME_CLAIMS.at(claim.metadata.namespace, claim.metadata.name, "status")
        return await self._client.patch(target, patch, PatchKind.STRATEGIC)

    async def secret(self, namespace: str, name: str) -> Secret:
        """Read a Secret that a volume names. Raises NotFound, Transient."""
        return await self._client.get(SECRETS.at(namespace, name))

    async def driver(self, name: str) -> CSIDriver | None:
        """Return the CSIDriver, or None if it does not exist. Raises Transient if the drivers cannot be read."""
        self._wanted.set()
        if not self._read.is_set():
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._read.wait()
            except TimeoutError as error:
                fault = self._driver_watch.fault
                raise Transient(f"CSIDriver objects not read yet{f': {fault}' if fault else ''}") from error
        return self._drivers.get(("", name))

    async def wait_attached(
        self, unique_name: str, attachment: str, limit: AbstractAsyncContextManager[object]
    ) -> None:
        """Wait until the node's status lists the volume as in use and as attached.

        ``attachment``: name of its VolumeAttachment; ``limit`` raises TimeoutError. Raises Transient with the cause,
        AttachLimitExceeded if the node has as many volumes as it can have.

        The watch may be behind, so the node is read at last: a controller that detaches a volume first takes it off the
        status, and then looks again whether it is in use.
        """
        try:
            async with limit:
                news = self._node_news
                while not await self._is_attached(unique_name):
                    await news.wait()
                    news = self._node_news
        except TimeoutError as error:
            raise await self._not_attached(unique_name, attachment) from error

    async def _is_attached(self, unique_name: str) -> bool:
        return unique_name in self._attached and unique_name in _attached(
            await self._client.get(NODES.at("", self._node))
        )

    async def _not_attached(self, unique_name: str, attachment: str) -> Transient:
        try:
            return not_attached(unique_name, attachment, await self._client.get(VOLUME_ATTACHMENTS.at("", attachment)))
        except NotFound:
            return not_attached(unique_name, attachment, None)
        except Forbidden as error:
            # The node authorizer refuses what is not related to the node, and so what does not exist.
            return Transient(f"{not_attached(unique_name, attachment, None)} ({error})")
        except Transient as error:
            return Transient(f"volume not attached according to node status: {unique_name}: {error}")

    async def attachment_metadata(self, name: str) -> Mapping[str, str]:
        """Read the metadata that the controller set when it attached the volume. Raises NotFound, Transient."""
        attachment = await self._client.get(VOLUME_ATTACHMENTS.at("", name))
        return attachment.status.attachment_metadata if attachment.status is not None else {}

    async def driver_tokens(self, pod: Pod, requests: tuple[TokenRequest, ...]) -> str:
        """Return tokens of the pod's service account by audience, as JSON in the form of TokenRequestStatus.

        Invalid: the date of an expiry cannot be written. Errors of the API.
        """
        found = {}
        for request in requests:
            token, expires = await self._tokens.fetch(pod, request.audience, request.expiration_seconds)
            try:
                at = time_from_unix(expires).strftime("%Y-%m-%dT%H:%M:%SZ")
            except (ValueError, OverflowError, OSError) as error:
                raise Invalid(
                    f"token for {request.audience!r} of pod {ref_of(pod)}: its expiry, {expires:g} s after 1970, "
                    "is not before year 10000; choose a smaller expirationSeconds in the CSIDriver"
                ) from error
            found[request.audience] = {"token": token.decode(), "expirationTimestamp": at}
        return json.dumps(found, separators=(",", ":"))

    def touch(self, uids: frozenset[PodUID]) -> None:
        """Wake the workers of these pods."""
        self._touched(uids)

    async def _follow_drivers(self) -> None:
        await self._wanted.wait()
        await self._driver_watch.run()

    def _take_drivers(self, drivers: Mapping[Key, CSIDriver]) -> None:
        self._drivers = drivers
        self._read.set()


def _attached(node: Node) -> frozenset[str]:
    """Volumes that are in use and attached, by the node's status."""
    return frozenset(volume.name for volume in node.status.volumes_attached) & frozenset(node.status.volumes_in_use)
