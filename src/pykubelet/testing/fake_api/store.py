"""The fake API server's objects: plain JSON by path, one increasing resource version, and a history for watches."""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pykubelet.testing.fake_api.pod_defaults import complete_pod

Json = dict[str, Any]
KINDS = {
    "pods": "Pod",
    "nodes": "Node",
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "services": "Service",
    "serviceaccounts": "ServiceAccount",
    "events": "Event",
    "leases": "Lease",
    "runtimeclasses": "RuntimeClass",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "persistentvolumes": "PersistentVolume",
    "csidrivers": "CSIDriver",
    "csinodes": "CSINode",
    "volumeattachments": "VolumeAttachment",
    "clustertrustbundles": "ClusterTrustBundle",
    "podcertificaterequests": "PodCertificateRequest",
    "certificatesigningrequests": "CertificateSigningRequest",
    "customresourcedefinitions": "CustomResourceDefinition",
    "things": "Thing",
}


@dataclass(frozen=True, slots=True)
class Place:
    """The path of an object: ``/api/v1`` and ``pods``, its namespace and name."""

    prefix: str
    plural: str
    namespace: str = ""
    name: str = ""

    @property
    def api_version(self) -> str:
        """The version of the objects there: ``v1``, ``storage.k8s.io/v1``."""
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


class RefusedError(Exception):
    """A request that fails with a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history."""

    version: int
    type: str
    place: Place
    object: Json
    before: Json | None = None


class Store:
    """The objects and their history. Not thread-safe."""

    def __init__(self) -> None:
        self._version = 100
        self._oldest = 100
        self._objects: dict[Place, Json] = {}
        self._history: list[Change] = []
        self._news = asyncio.Event()

    @property
    def version(self) -> int:
        return self._version

    def compact(self) -> None:
        """Drop the history: a watch from an older version gets 410 and its client has to list again."""
        self._history.clear()
        self._version += 1
        self._oldest = self._version

    def get(self, place: Place) -> Json:
        if place not in self._objects:
            raise RefusedError(404, "NotFound", f'{place.plural} "{place.name}" not found')
        return deepcopy(self._objects[place])

    def list(self, place: Place, selects: Callable[[Json], bool]) -> list[Json]:
        """All selected objects of a collection, sorted by namespace and name."""
        found = [
            (key, value)
            for key, value in self._objects.items()
            if (key.prefix, key.plural) == (place.prefix, place.plural)
            and place.namespace in ("", key.namespace)
            and selects(value)
        ]
        return [deepcopy(value) for _, value in sorted(found, key=lambda item: (item[0].namespace, item[0].name))]

    def create(self, place: Place, value: Json) -> Json:
        meta = value.setdefault("metadata", {})
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        key = Place(place.prefix, place.plural, place.namespace, meta.get("name", ""))
        if not key.name:
            raise RefusedError(422, "Invalid", "metadata.name: Required value: name or generateName is required")
        if key in self._objects:
            raise RefusedError(409, "AlreadyExists", f'{key.plural} "{key.name}" already exists')
        meta["uid"] = str(uuid.uuid4())
        meta["creationTimestamp"] = _now()
        if key.namespace:
            meta["namespace"] = key.namespace
        meta.pop("deletionTimestamp", None)
        if key.plural == "pods":
            meta["generation"] = 1
        _defaults(key.plural, value)
        return self._put("ADDED", key, value)

    def replace(self, place: Place, value: Json) -> Json:
        """Replace an object; fields of the API server are kept. RefusedError for an old version or another uid."""
        old = self.get(place)
        meta, kept = value.setdefault("metadata", {}), old["metadata"]
        if meta.get("uid", kept["uid"]) != kept["uid"]:
            raise RefusedError(422, "Invalid", f"metadata.uid: Invalid value: {meta['uid']!r}: field is immutable")
        given = meta.get("resourceVersion") or kept["resourceVersion"]
        if given != kept["resourceVersion"]:
            raise RefusedError(
                409, "Conflict", f'the object "{place.name}" has been modified; apply to the latest version'
            )
        for name in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace"):
            if name in kept:
                meta[name] = kept[name]
        meta["name"] = place.name
        if "generation" in kept:
            # As of 1.33, the generation counts changes of the spec, but not the binding to a node.
            before, after = ({**each.get("spec", {}), "nodeName": ""} for each in (old, value))
            meta["generation"] = kept["generation"] + (before != after)
        if {**value, "metadata": {**meta, "resourceVersion": ""}} == {
            **old,
            "metadata": {**kept, "resourceVersion": ""},
        }:
            return old  # nothing has changed: no new version, no event
        return self._put("MODIFIED", place, value)

    def delete(self, place: Place, uid: str, grace: int | None) -> Json:
        """Delete an object; a pod on a node is only marked until its node deletes it with a grace period of 0."""
        old = self.get(place)
        if uid and old["metadata"]["uid"] != uid:
            raise RefusedError(
                409, "Conflict", f"Precondition failed: UID in precondition: {uid}, UID in object meta: other"
            )
        if place.plural == "pods" and old.get("spec", {}).get("nodeName"):
            if grace is None:
                grace = old["spec"].get("terminationGracePeriodSeconds", 30)
            if old.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                grace = 0
            if grace > 0:
                meta = old["metadata"]
                if grace >= meta.get("deletionGracePeriodSeconds", grace + 1):
                    return old
                meta["deletionTimestamp"] = _now(grace)
                meta["deletionGracePeriodSeconds"] = grace
                return self._put("MODIFIED", place, old)
        self._version += 1
        gone = self._objects.pop(place)
        last = deepcopy(gone)
        last["metadata"]["resourceVersion"] = str(self._version)
        self._tell(Change(self._version, "DELETED", place, last, gone))
        return last

    async def changes(self, since: int, end: Callable[[], float]) -> AsyncIterator[Change | None]:
        """Yield the changes after a version, and None periodically. RefusedError if the history begins later."""
        if since < self._oldest:
            raise RefusedError(410, "Expired", f"too old resource version: {since} ({self._oldest})")
        while (left := end()) > 0:
            news = self._news
            for change in self._since(since):
                since = change.version
                yield change
            try:
                async with asyncio.timeout(min(left, 0.2)):
                    await news.wait()
            except TimeoutError:
                yield None

    def _since(self, version: int) -> Iterator[Change]:
        yield from [change for change in self._history if change.version > version]

    def _put(self, kind: str, place: Place, value: Json) -> Json:
        self._version += 1
        value.setdefault("kind", KINDS.get(place.plural, "Object"))
        value.setdefault("apiVersion", place.api_version)
        value["metadata"]["resourceVersion"] = str(self._version)
        before = self._objects.get(place)
        self._objects[place] = deepcopy(value)
        self._tell(Change(self._version, kind, place, deepcopy(value), before))
        return deepcopy(value)

    def _tell(self, change: Change) -> None:
        self._history.append(change)
        self._news.set()
        self._news = asyncio.Event()


def _defaults(plural: str, value: Json) -> None:
    if plural == "pods":
        complete_pod(value)
    elif plural == "secrets":
        text = value.pop("stringData", {})
        if text:
            value.setdefault("data", {}).update({k: base64.b64encode(v.encode()).decode() for k, v in text.items()})


def _now(later: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=later)).strftime("%Y-%m-%dT%H:%M:%SZ")
