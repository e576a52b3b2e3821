"""ConfigMaps and Secrets of the API server, each followed by a watch of its own, and only while a pod uses it.

A node may read what its pods refer to and nothing else, so there is no watching of whole collections. An immutable
object is read once. A few ConfigMaps are followed for a while longer, since the next pod of a namespace is likely to
refer to the same ones (every pod with a token does: ``kube-root-ca.crt``); Secrets are let go of at once. What a pod
refers to is known when the sync loop hears of it, before its worker starts.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pykubelet.apiclient import ApiClient, Query, Reflector, Select
from pykubelet.apiclient.reflector import Key
from pykubelet.apiclient.resources import CONFIG_MAPS, SECRETS
from pykubelet.base.clock import Clock
from pykubelet.base.errors import NotFound, Transient
from pykubelet.base.guard import Guard
from pykubelet.base.units import Seconds
from pykubelet.kubelet.desired.manifest.types import ObjectKey
from pykubelet.kubelet.desired.objects.interfaces import Changed, Objects
from pykubelet.kubelet.desired.objects.references import CONFIG_MAP, references
from pykubelet.kubelet.types.ids import PodUID, ref_of
from pykubelet.models.core_v1 import ConfigMap, Pod, Secret

_log = logging.getLogger(__name__)

PATIENCE: Final[Seconds] = 10.0
"""How long a pod waits for its objects before that counts as a failure, which is told and tried again."""
_FIRST_DELAY: Final = 0.05
"""The API server allows a node to read an object a moment after the pod that uses it has come."""
LINGER: Final[Seconds] = 120.0
"""How long a ConfigMap is followed that no pod uses any more."""
_MAX_LINGERING: Final = 16
"""Each costs a connection."""


@dataclass(slots=True)
class _Followed:
    """One object in use."""

    users: set[PodUID] = field(default_factory=set)
    read: asyncio.Event = field(default_factory=asyncio.Event)
    value: ConfigMap | Secret | None = None
    reflector: Reflector[ConfigMap] | Reflector[Secret] | None = None
    task: "asyncio.Task[None] | None" = None


class ApiObjects:
    """The objects of the API server; what it does not have is looked for among those of manifests."""

    def __init__(self, client: ApiClient, local: Objects, clock: Clock) -> None:
        self._client = client
        self._local = local
        self._clock = clock
        self._followed: dict[ObjectKey, _Followed] = {}
        self._idle: dict[ObjectKey, Seconds] = {}
        """Of those followed that no pod uses: since when; the first is the one that has been so for longest."""
        self._of_pod: dict[PodUID, frozenset[ObjectKey]] = {}
        self._subscribers: dict[object, Changed] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Follow what is in use until cancelled."""
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
        """A pod of the API server is wanted (new or changed): follow what it refers to."""
        self._set(ref_of(pod).uid, references(pod))

    def release(self, uid: PodUID) -> None:
        """The pod is gone. Repeatable."""
        self._set(uid, frozenset())

    async def ready(self, uid: PodUID) -> None:
        """Wait until all that the pod refers to has been read once. Raises Transient when that takes too long."""
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

    def follows(self, key: ObjectKey) -> bool:
        """Whether the object is followed, used or not."""
        return key in self._followed

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """The ConfigMap; raises NotFound."""
        found = self._find(ObjectKey(CONFIG_MAP, namespace, name))
        return found if isinstance(found, ConfigMap) else self._local.get_config_map(namespace, name)

    def get_secret(self, namespace: str, name: str) -> Secret:
        """The Secret; raises NotFound."""
        found = self._find(ObjectKey("Secret", namespace, name))
        return found if isinstance(found, Secret) else self._local.get_secret(namespace, name)

    def subscribe(self, callback: Changed) -> Callable[[], None]:
        """Have changes told from now on; call the result to end it."""
        token = object()
        self._subscribers[token] = callback
        ends = self._local.subscribe(callback)

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)
            ends()

        return unsubscribe

    def _find(self, key: ObjectKey) -> ConfigMap | Secret | None:
        """The object; None: nobody of the API server's pods uses it. Raises NotFound."""
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
                self._put_by(key)
        for key in keys - before:
            if self._idle.pop(key, None) is not None and not self._is_current(key):
                self._drop(key)
            if key not in self._followed:
                self._followed[key] = _Followed()
                self._start(key, self._followed[key])
            self._followed[key].users.add(uid)

    def _put_by(self, key: ObjectKey) -> None:
        """Nobody uses the object any more."""
        if key.kind != CONFIG_MAP or not self._is_current(key):
            self._drop(key)
            return
        self._idle[key] = self._clock.monotonic()
        if len(self._idle) > _MAX_LINGERING:
            self._drop(next(iter(self._idle)))

    def _is_current(self, key: ObjectKey) -> bool:
        """Whether the object is there and a watch that works would tell of a change."""
        followed = self._followed[key]
        if followed.value is None or followed.value.immutable or followed.reflector is None:
            return False
        return followed.reflector.fault is None

    def _drop(self, key: ObjectKey) -> None:
        self._idle.pop(key, None)
        task = self._followed.pop(key).task
        if task is not None:
            task.cancel()

    def _start(self, key: ObjectKey, followed: _Followed) -> None:
        if self._group is None:
            return
        select = Select(fields=f"metadata.name={key.name}")

        def take(items: Mapping[Key, ConfigMap] | Mapping[Key, Secret]) -> None:
            self._take(key, followed, items.values())

        if key.kind == CONFIG_MAP:
            followed.reflector = Reflector(
                self._client, Query(CONFIG_MAPS.all(key.namespace), select), take, self._clock, _FIRST_DELAY
            )
        else:
            followed.reflector = Reflector(
                self._client, Query(SECRETS.all(key.namespace), select), take, self._clock, _FIRST_DELAY
            )
        followed.task = self._group.create_task(followed.reflector.run(), name=f"watch {key}")

    def _take(self, key: ObjectKey, followed: _Followed, items: Iterable[ConfigMap | Secret]) -> None:
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
