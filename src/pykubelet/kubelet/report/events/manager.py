"""The event log: what happened to pods, for people. The last step of the way of everything worth telling."""

import logging
from collections.abc import Callable

from pykubelet.base.clock import Clock
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.events.correlate import Correlator
from pykubelet.kubelet.report.events.types import Correlated, EventConfig, Occurrence
from pykubelet.kubelet.report.watchtable import WatchTable
from pykubelet.kubelet.types.events import WARNING
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.podspec import find_container
from pykubelet.kubelet.types.runtime import ContainerKind
from pykubelet.models.core_v1 import Event, EventSource, ObjectReference, Pod
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix

_log = logging.getLogger(__name__)
COMPONENT = "kubelet"
_DEFAULT = EventConfig()
_LISTS = {
    ContainerKind.INIT: "initContainers",
    ContainerKind.CONTAINER: "containers",
    ContainerKind.EPHEMERAL: "ephemeralContainers",
}

FindPod = Callable[[PodUID], Pod | None]


class EventLog:
    """An EventRecorder that keeps the newest events in memory, logs them and lets others watch them.

    ``find_pod`` gives the pod of a uid, if it is known, to tell the kind of a container.
    """

    def __init__(self, clock: Clock, node_name: str, find_pod: FindPod, config: EventConfig = _DEFAULT) -> None:
        self._clock = clock
        self._node = node_name
        self._find_pod = find_pod
        self._config = config
        self._correlator = Correlator(config)
        self.table: WatchTable[Event] = WatchTable(int(clock.now() * 1000), config.capacity)
        """What is kept, to be listed and watched; the event told last comes last."""
        self._told_at: dict[str, Seconds] = {}
        """Monotonic time at which each of them was told last."""

    def event(self, pod: PodRef | None, event_type: str, reason: str, message: str, *, container: str = "") -> None:
        """Record an event of a pod, or with None of the node."""
        now = self._clock.now()
        involved = self._reference(pod, container)
        told = self._correlator.correlate(Occurrence(involved, event_type, reason, message, now))
        fields = {"pod": str(pod) if pod else "", "container": container, "reason": reason, "event": message}
        if told.suppressed:
            _log.debug("event suppressed", extra=fields)
            return
        level = logging.WARNING if event_type == WARNING else logging.INFO
        _log.log(level, "event", extra=fields | {"count": told.count})
        self._keep(told)

    def list(self, namespace: str | None = None) -> tuple[Event, ...]:
        """The events that are kept, the one told longest ago first; of one namespace if given."""
        self.expire()
        events = (change.value for change in self.table.changes())
        return tuple(e for e in events if namespace in (None, e.metadata.namespace))

    def expire(self) -> None:
        """Forget the events that were not repeated for long."""
        oldest = self._clock.monotonic() - self._config.keep_for
        while (stalest := self.table.stalest()) is not None and self._told_at.get(stalest.key, oldest - 1) < oldest:
            self._forget(stalest.key)

    def _keep(self, told: Correlated) -> None:
        self.expire()
        namespace = told.occurrence.involved.namespace or "default"
        key = f"{namespace}/{told.name}"
        self.table.put(key, lambda version: self._object(told, namespace, version))
        self._told_at[key] = self._clock.monotonic()
        stalest = self.table.stalest()
        if stalest is not None and len(self.table) > self._config.capacity:
            self._forget(stalest.key)

    def _forget(self, key: str) -> None:
        self.table.forget(key)
        self._told_at.pop(key, None)

    def _object(self, told: Correlated, namespace: str, version: int) -> Event:
        shown = told.occurrence
        first, last = time_from_unix(told.first_at), time_from_unix(shown.at)
        return Event(
            api_version="v1",
            kind="Event",
            metadata=ObjectMeta(
                name=told.name,
                namespace=namespace,
                uid=f"{namespace}/{told.name}",
                creation_timestamp=first,
                resource_version=str(version),
            ),
            involved_object=shown.involved,
            type=shown.type,
            reason=shown.reason,
            message=shown.message,
            count=told.count,
            first_timestamp=first,
            last_timestamp=last,
            source=EventSource(component=COMPONENT, host=self._node),
            reporting_component=COMPONENT,
            reporting_instance=self._node,
        )

    def _reference(self, pod: PodRef | None, container: str) -> ObjectReference:
        if pod is None:
            return ObjectReference(kind="Node", name=self._node, uid=self._node)
        path = f"spec.{self._list_of(pod, container)}{{{container}}}" if container else ""
        return ObjectReference(
            api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid, field_path=path
        )

    def _list_of(self, ref: PodRef, container: str) -> str:
        pod = self._find_pod(ref.uid)
        found = find_container(pod, container) if pod is not None else None
        return _LISTS[found[0] if found is not None else ContainerKind.CONTAINER]
