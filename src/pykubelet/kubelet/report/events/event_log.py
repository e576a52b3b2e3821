"""The event log: records, combines and keeps events about pods and the node."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from msgspec.structs import replace

from pykubelet.base.clock import Clock
from pykubelet.base.concurrency.callbacks import Callbacks
from pykubelet.base.concurrency.watch_table import Change, WatchTable
from pykubelet.base.text import cut
from pykubelet.base.units import Seconds
from pykubelet.kubelet.report.events.event_types import CorrelatedEvent, EventConfig, Occurrence
from pykubelet.kubelet.report.events.plan.correlate import Correlator
from pykubelet.kubelet.types.ids import PodRef, PodUID
from pykubelet.kubelet.types.reports.events import NO_ANNOTATIONS, WARNING
from pykubelet.models.core_v1 import Event, EventSource, ObjectReference, Pod
from pykubelet.models.meta_v1 import ObjectMeta
from pykubelet.models.scalars import time_from_unix

_log = logging.getLogger(__name__)
COMPONENT = "kubelet"
_DEFAULT = EventConfig()

FindPod = Callable[[PodUID], Pod | None]


class EventLog:
    """An EventRecorder that keeps the newest events in memory, logs them and makes them watchable.

    ``find_pod`` returns the pod of a uid if it is known; it tells the kind of a container.
    """

    def __init__(self, *, clock: Clock, node_name: str, find_pod: FindPod, config: EventConfig = _DEFAULT) -> None:
        self._clock = clock
        self._node = node_name
        self._find_pod = find_pod
        self._config = config
        self._correlator = Correlator(config)
        self.table: WatchTable[Event] = WatchTable(int(clock.now() * 1000), limit=config.capacity)
        """The kept events, to be listed and watched; the most recently recorded one is last."""
        self._recorded_at: dict[str, Seconds] = {}
        """Monotonic time at which each event was last recorded."""
        self.recorded: Callbacks[[str, Event]] = Callbacks()
        """Called with the key and the newest state of each event that is recorded."""
        self.dropped = False
        """Events were dropped to make room for newer ones."""
        self._restored_version = 0
        """Version up to which the table has events of an earlier run of the agent."""

    @property
    def capacity(self) -> int:
        """Maximum number of events kept in memory."""
        return self._config.capacity

    def restore(self, events: Iterable[Event]) -> None:
        """Add events that an earlier run of the agent has recorded, the oldest first."""
        since_boot = self._clock.now() - self._clock.monotonic()
        for event in events:
            key = f"{event.metadata.namespace}/{event.metadata.name}"
            if key in self.table:
                continue
            self.table.put(key, partial(_restored, event, key))
            last = event.last_timestamp or event.metadata.creation_timestamp
            self._recorded_at[key] = (last.timestamp() if last else 0.0) - since_boot
        self._restored_version = self.table.version

    def is_restored(self, change: Change[Event]) -> bool:
        """Whether an earlier run of the agent has recorded this state of an event, and sent it where it was to go."""
        return change.version <= self._restored_version

    def event(
        self,
        pod: PodRef | None,
        event_type: str,
        reason: str,
        message: str,
        *,
        container: str = "",
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        """Record an event of a pod, or with None of the node. A message that is too long is cut."""
        now = self._clock.now()
        message = cut(message, self._config.max_message)
        involved = self._reference(pod, container)
        correlated = self._correlator.correlate(Occurrence(involved, event_type, reason, message, now, annotations))
        fields = {"pod": str(pod) if pod else "", "container": container, "reason": reason, "event": message}
        if correlated.suppressed:
            _log.debug("event suppressed", extra=fields)
            return
        level = logging.WARNING if event_type == WARNING else logging.INFO
        _log.log(level, "event", extra=fields | {"count": correlated.count})
        self._keep(correlated)

    def list(self, namespace: str | None = None) -> tuple[Event, ...]:
        """Return the kept events, the least recently recorded first; of one namespace if given."""
        self.expire()
        events = (change.value for change in self.table.changes())
        return tuple(e for e in events if namespace in (None, e.metadata.namespace))

    def expire(self) -> None:
        """Forget events that were not repeated for the configured time."""
        oldest = self._clock.monotonic() - self._config.keep_for
        while (stalest := self.table.stalest()) is not None and self._recorded_at.get(stalest.key, oldest - 1) < oldest:
            self._forget(stalest.key)

    def _keep(self, correlated: CorrelatedEvent) -> None:
        self.expire()
        namespace = correlated.occurrence.involved.namespace or "default"
        key = f"{namespace}/{correlated.name}"
        event = self.table.put(key, lambda version: self._object(correlated, namespace, key, version))
        self._recorded_at[key] = self._clock.monotonic()
        self.recorded(key, event)
        stalest = self.table.stalest()
        if stalest is not None and len(self.table) > self._config.capacity:
            self.dropped = True
            self._forget(stalest.key)

    def _forget(self, key: str) -> None:
        self.table.forget(key)
        self._recorded_at.pop(key, None)

    def _object(self, correlated: CorrelatedEvent, namespace: str, key: str, version: int) -> Event:
        shown = correlated.occurrence
        first, last = time_from_unix(correlated.first_at), time_from_unix(shown.at)
        return Event(
            api_version="v1",
            kind="Event",
            metadata=ObjectMeta(
                name=correlated.name,
                namespace=namespace,
                uid=key,
                creation_timestamp=first,
                resource_version=str(version),
                annotations=dict(shown.annotations),
            ),
            involved_object=shown.involved,
            type=shown.type,
            reason=shown.reason,
            message=shown.message,
            count=correlated.count,
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
        """Return the list of the spec that has the container; those of the ordinary ones may be thousands."""
        pod = self._find_pod(ref.uid)
        if pod is not None and any(each.name == container for each in pod.spec.init_containers):
            return "initContainers"
        if pod is not None and any(each.name == container for each in pod.spec.ephemeral_containers):
            return "ephemeralContainers"
        return "containers"


def _restored(event: Event, key: str, version: int) -> Event:
    meta = replace(event.metadata, uid=key, resource_version=str(version))
    return replace(event, metadata=meta)
