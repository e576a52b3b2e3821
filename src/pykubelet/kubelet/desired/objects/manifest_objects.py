"""`LocalObjects`: the ConfigMaps and Secrets of manifests, the store of a node without an API server."""

from collections.abc import Callable, Iterable, Mapping

from pykubelet.base.errors import NotFound
from pykubelet.kubelet.desired.manifest.manifest_types import ObjectKey, key_of
from pykubelet.kubelet.desired.objects.object_interfaces import Changed
from pykubelet.kubelet.types.updates import Source
from pykubelet.models.core_v1 import ConfigMap, Secret

_PRECEDENCE = tuple(Source)


class LocalObjects:
    """The objects of each source; with equal names, the file's takes precedence over the URL's.

    Use it from the event loop's thread only; no method waits.
    """

    def __init__(self) -> None:
        self._by_source: dict[Source, Mapping[ObjectKey, ConfigMap | Secret]] = {}
        self._objects: Mapping[ObjectKey, ConfigMap | Secret] = {}
        self._subscribers: dict[object, Changed] = {}

    def replace(self, source: Source, objects: Iterable[ConfigMap | Secret]) -> None:
        """Replace all objects of a source; subscribers are called with the differences."""
        self._by_source[source] = {key_of(each): each for each in objects}
        merged: dict[ObjectKey, ConfigMap | Secret] = {}
        for each in reversed(_PRECEDENCE):
            merged |= self._by_source.get(each, {})
        before, self._objects = self._objects, merged
        changed = frozenset(key for key in before.keys() | merged.keys() if before.get(key) != merged.get(key))
        if changed:
            for callback in tuple(self._subscribers.values()):
                callback(changed)

    def get_config_map(self, namespace: str, name: str) -> ConfigMap:
        """Return the ConfigMap; raises NotFound."""
        found = self._objects.get(ObjectKey("ConfigMap", namespace, name))
        if isinstance(found, ConfigMap):
            return found
        raise self._missing("ConfigMap", namespace, name)

    def get_secret(self, namespace: str, name: str) -> Secret:
        """Return the Secret, ``string_data`` merged into ``data``; raises NotFound."""
        found = self._objects.get(ObjectKey("Secret", namespace, name))
        if isinstance(found, Secret):
            return found
        raise self._missing("Secret", namespace, name)

    def subscribe(self, callback: Changed) -> Callable[[], None]:
        """Call ``callback`` with changes from now on; call the result to unsubscribe."""
        token = object()
        self._subscribers[token] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(token, None)

        return unsubscribe

    def keys(self) -> tuple[ObjectKey, ...]:
        """Return the keys of all objects."""
        return tuple(self._objects)

    def data_keys(self, key: ObjectKey) -> tuple[str, ...]:
        """Return the keys of an object's data, sorted; none if it does not exist."""
        match self._objects.get(key):
            case ConfigMap(data=data, binary_data=binary):
                return tuple(sorted((*data, *binary)))
            case Secret(data=secret):
                return tuple(sorted(secret))
            case _:
                return ()

    def objects(self) -> tuple[ConfigMap | Secret, ...]:
        """Return all objects."""
        return tuple(self._objects.values())

    def _missing(self, kind: str, namespace: str, name: str) -> NotFound:
        others = sorted(key.namespace for key in self._objects if key.kind == kind and key.name == name)
        advice = f"put a {kind} of that name into the manifest directory"
        if others:
            advice = f"there is one in namespace {others[0]!r}; a pod can only use those of its own namespace"
        return NotFound(f"{kind.lower()} {name!r} not found in namespace {namespace!r}: {advice}")
