"""ConfigMaps and Secrets of the API server, each with a watch of its own while a pod uses it.

A node may read only objects that its pods refer to, so whole collections cannot be watched. An immutable object is read
once. A few ConfigMaps are watched for some time after their last pod, since the next pod of a namespace is likely to
refer to the same ones (every pod with a token refers to ``kube-root-ca.crt``); watches of Secrets end at once. A pod's
references are known when the sync loop receives the pod, before its worker starts.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from pykubelet.apiclient import ApiClient, ObjectSelector, Query, Reflector
from pykubelet.apiclient.held_objects import Key
from pykubelet.apiclient.resources import CONFIG_MAPS, SECRETS
from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.guard import Guard
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey
from pykubelet.kubelet.desired.objects.object_interfaces import Changed, Objects
from pykubelet.kubelet.desired.objects.plan.references import CONFIG_MAP, references
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

_log = logging.getLogger(__name__)

PATIENCE: Final[Seconds] = 10.0
"""Time that a pod waits for its objects before it fails with a transient error."""
_FIRST_DELAY: Final = 0.05
"""Delay of the first retry: the API server permits a node to read an object shortly after the pod that uses it."""
LINGER: Final[Seconds] = 120.0
"""Time that a ConfigMap is watched after its last pod."""
_MAX_LINGERING: Final = 16
"""Maximum number of watched ConfigMaps without a pod; each needs a connection."""


class _WatchedObject(Struct):
    """A watched object."""

    users: set[PodUID] = field(default_factory=set)
    read: asyncio.Event = field(default_factory=asyncio.Event)
    value: ConfigMap | Secret | None = None
    reflector: Reflector[ConfigMap] | Reflector[Secret] | None = None
    task: "asyncio.Task[None] | None" = None


class ApiObjects:
    """The objects of the API server, and those of manifests for pods that are not the API server's."""

    def __init__(self, *, client: ApiClient, local: Objects, clock: Clock) -> None:
        self._client = client
        self._local = local
        self._clock = clock
        self._followed: dict[ObjectKey, _WatchedObject] = {}
        self._idle: dict[ObjectKey, Seconds] = {}
        """Watched objects without a pod, with the time since which they have none; the oldest is first."""
        self._of_pod: dict[PodUID, frozenset[ObjectKey]] = {}
        self._subscribers: dict[object, Changed] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Watch used objects until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            guard = Guard("objects", self._clock.monotonic)
            for key, followed in self._followed.items():
                self._start(key, followed)
            while True:
                await self._clock.sleep(LINGER / 4)
                late = self._clock.monotonic() - LINGER
                for key in [key for key, since in self._idle.items() if since <= late]:
                    with guard.item(str(key)):
                        self._drop(key)

    def use(self, pod: Pod) -> None:
        """Watch the objects that a new or changed pod of the API server refers to."""
        self._set(ref_of(pod).uid, references(pod))

    def release(self, uid: PodUID) -> None:
        """Forget a removed pod. Idempotent."""
        self._set(uid, frozenset())

    async def ready(self, uid: PodUID) -> None:
        """Wait until all objects of the pod have been read once. Raises Transient after 10 s."""
        waiting = [key for key in self._of_pod.get(uid, ()) if not self._followed[key].read.is_set()]
        if not waiting:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                for key in waiting:
                    if key in self._followed:
                        await self._followed[key].read.wait()
        except TimeoutError as error:
            late = [key for key in waiting if key in self._followed and not self._followed[key].read.is_set()]
            raise Transient(f"not read from the API server yet: {', '.join(map(self._explain, late))}") from error

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """Return the ConfigMap; raises NotFound."""
        found = self._find(ObjectKey(CONFIG_MAP, namespace, name))
        return found if isinstance(found, ConfigMap) else self._local.get_config_map(namespace, name)

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return the Secret; raises NotFound."""
        found = self._find(ObjectKey("Secret", namespace, name))
        return found if isinstance(found, Secret) else self._local.get_secret(namespace, name)

    def subscribe(self, callback: Changed) -> Callable[[], None]:
        """Call ``callback`` with changes from now on; call the result to unsubscribe."""
        token = object()
        self._subscribers[token] = callback
        ends = self._local.subscribe(callback)

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)
            ends()

        return unsubscribe

    def _find(self, key: ObjectKey) -> ConfigMap | Secret | None:
        """Return the object; None if no pod of the API server uses it. Raises NotFound."""
        followed = self._followed.get(key)
        if followed is None or not followed.users:
            return None
        if followed.value is None:
            kind = key.kind.lower()
            if followed.read.is_set():
                raise NotFound(f'{kind} "{key.name}" not found in namespace {key.namespace!r}')
            raise NotFound(f"{kind} {self._explain(key)} has not been read from the API server yet")
        return followed.value

    def _explain(self, key: ObjectKey) -> str:
        reflector = self._followed[key].reflector
        fault = reflector.fault if reflector is not None else None
        return f"{key} ({fault})" if fault is not None else str(key)

    def _set(self, uid: PodUID, keys: frozenset[ObjectKey]) -> None:
        before = self._of_pod.pop(uid, frozenset())
        if keys:
            self._of_pod[uid] = keys
        for key in before - keys:
            self._followed[key].users.discard(uid)
            if not self._followed[key].users:
                self._release_watch(key)
        for key in keys - before:
            if self._idle.pop(key, None) is not None and not self._is_current(key):
                self._drop(key)
            if key not in self._followed:
                self._followed[key] = _WatchedObject()
                self._start(key, self._followed[key])
            self._followed[key].users.add(uid)

    def _release_watch(self, key: ObjectKey) -> None:
        """Drop the object or let it linger, since no pod uses it any more."""
        if key.kind != CONFIG_MAP or not self._is_current(key):
            self._drop(key)
            return
        self._idle[key] = self._clock.monotonic()
        if len(self._idle) > _MAX_LINGERING:
            self._drop(next(iter(self._idle)))

    def _is_current(self, key: ObjectKey) -> bool:
        """Whether the object exists and its watch works."""
        followed = self._followed[key]
        if followed.value is None or followed.value.immutable or followed.reflector is None:
            return False
        return followed.reflector.fault is None

    def _drop(self, key: ObjectKey) -> None:
        self._idle.pop(key, None)
        task = self._followed.pop(key).task
        if task is not None:
            task.cancel()

    def _start(self, key: ObjectKey, followed: _WatchedObject) -> None:
        if self._group is None:
            return
        select = ObjectSelector(fields=f"metadata.name={key.name}")

        def take(items: Mapping[Key, ConfigMap] | Mapping[Key, Secret]) -> None:
            self._take(key, followed, items.values())

        if key.kind == CONFIG_MAP:
            followed.reflector = Reflector(
                client=self._client,
                query=Query(CONFIG_MAPS.all(key.namespace), select),
                deliver=take,
                clock=self._clock,
                first_delay=_FIRST_DELAY,
            )
        else:
            followed.reflector = Reflector(
                client=self._client,
                query=Query(SECRETS.all(key.namespace), select),
                deliver=take,
                clock=self._clock,
                first_delay=_FIRST_DELAY,
            )
        followed.task = self._group.create_task(followed.reflector.run(), name=f"watch {key}")

    def _take(self, key: ObjectKey, followed: _WatchedObject, items: Iterable[ConfigMap | Secret]) -> None:
        value = next(iter(items), None)
        if followed.read.is_set() and value == followed.value:
            return
        first = not followed.read.is_set()
        followed.value = value
        followed.read.set()
        if value is not None and value.immutable and followed.reflector is not None:
            followed.reflector.stop()  # it cannot change any more
        if not first and followed.users:
            for callback in tuple(self._subscribers.values()):
                callback(frozenset({key}))
