"""The live view's data of one agent: its pods, their recent usage, their events. Pure; times are Unix times."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from pykubelet.base.units import Seconds
from pykubelet.cli.plan.event_subject import container_of
from pykubelet.cli.plan.pod_row import Item, pod_row
from pykubelet.cli.plan.screen_text import visible

SAMPLES: Final = 60
"""Measurements that are kept of each pod."""
_EVENTS: Final = 6
"""Events that are kept of each pod."""
_PODS_WITH_EVENTS: Final = 4096
"""Pods, also those that are gone, of which events are kept."""
_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_SETTLED: Final = frozenset({"Running", "Completed", "Succeeded"})

Key = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A measurement; None: it is unknown."""

    cpu_nano_cores: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event of a pod, with all texts fit to be shown."""

    at: Seconds
    is_warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ContainerEntry:
    """A container of a pod; ``state`` is its reason, or ``Running``."""

    name: str
    state: str
    restarts: int
    image: str


@dataclass(frozen=True, slots=True)
class PodEntry:
    """A pod, with all texts fit to be shown."""

    key: Key
    name: str
    """Short for a static pod: without the name of the node."""
    ready: str
    status: str
    restarts: int
    created_at: Seconds
    ip: str
    containers: tuple[ContainerEntry, ...] = ()
    init_containers: int = 0
    """Number of init containers, which are the first of the containers."""
    samples: Sequence[Sample] = ()
    containers_now: Mapping[str, Sample] = field(default_factory=dict)
    """The last measurement of each container."""
    events: Sequence[SeenEvent] = ()
    """The last ones, the newest first."""

    @property
    def now(self) -> Sample:
        """The last measurement."""
        return self.samples[-1] if self.samples else Sample()

    @property
    def is_settled(self) -> bool:
        """Whether the pod runs and is ready, or has succeeded."""
        ready, _, wanted = self.ready.partition("/")
        return self.status in _SETTLED and (ready == wanted or self.status != "Running")


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """The usage of the whole machine."""

    name: str = ""
    capacity_bytes: int = 0
    samples: Sequence[Sample] = ()


def pod_entry(pod: Item) -> PodEntry:
    """Return what is shown of a pod, given as JSON object, without usage and events."""
    row = pod_row(pod, 0.0)
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    states = {each.get("name"): each for group in _STATUSES for each in status.get(group) or ()}
    declared = [each for group in _CONTAINERS for each in spec.get(group) or ()]
    return PodEntry(
        (row.namespace, row.name),
        visible(row.name.removesuffix(f"-{spec.get('nodeName')}")),
        row.ready,
        visible(row.status),
        int(row.restarts),
        -row.age_seconds,
        visible(row.ip),
        tuple(_container(each, states.get(each.get("name")) or {}) for each in declared),
        len(spec.get("initContainers") or ()),
    )


def _container(declared: Item, status: Item) -> ContainerEntry:
    word, state = "Waiting", status.get("state") or {}
    if "running" in state:
        word = "Running"
    elif ended := state.get("terminated"):
        word = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
    elif waiting := state.get("waiting"):
        word = waiting.get("reason") or word
    name, image = str(declared.get("name", "")), str(declared.get("image", ""))
    return ContainerEntry(visible(name), visible(word), int(status.get("restartCount", 0)), visible(image))


class LiveModel:
    """Collects the agent's answers; ``pods`` gives the result. Only pods of ``namespace`` (empty: any) and, if it is
    given, of this name or with a name that begins with it are kept."""

    def __init__(self, namespace: str = "", name: str = "") -> None:
        self._namespace = namespace
        self._name = name
        self._pods: dict[Key, PodEntry] = {}
        self._samples: dict[Key, deque[Sample]] = {}
        self._containers: dict[Key, Mapping[str, Sample]] = {}
        self._events: dict[Key, deque[SeenEvent]] = {}
        self._node: deque[Sample] = deque(maxlen=SAMPLES)
        self.node = NodeUsage()

    @property
    def pods(self) -> list[PodEntry]:
        """All pods by namespace and name, with their usage and events."""
        return [self._full(entry) for _, entry in sorted(self._pods.items())]

    @property
    def has_namespaces(self) -> bool:
        """Whether the pods are of several namespaces."""
        return len({namespace for namespace, _ in self._pods}) > 1

    def replace_pods(self, pods: Iterable[Item]) -> None:
        """Set all pods; others are gone."""
        self._pods = {entry.key: entry for pod in pods if self._is_wanted(entry := pod_entry(pod))}
        self._samples = {key: kept for key, kept in self._samples.items() if key in self._pods}

    def change_pod(self, change: str, pod: Item) -> None:
        """Take a change of a watch."""
        entry = pod_entry(pod)
        if change == "DELETED":
            self._pods.pop(entry.key, None)
            self._samples.pop(entry.key, None)
            self._events.pop(entry.key, None)
        elif self._is_wanted(entry):
            self._pods[entry.key] = entry

    def replace_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Set all events, in any order."""
        self._events = {}
        for event in sorted(events, key=_order_of):
            self.add_event(event)

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Take an event, or a new version of one, as the newest of its pod."""
        subject = event.get("involvedObject") or {}
        if subject.get("kind") != "Pod":
            return
        seen = SeenEvent(
            _time_of(event),
            event.get("type") == "Warning",
            visible(str(event.get("reason", ""))),
            visible(" ".join(_message_of(event).split())),
        )
        key = (str(subject.get("namespace", "")), str(subject.get("name", "")))
        known = self._events.setdefault(key, deque(maxlen=_EVENTS))
        if len(self._events) > _PODS_WITH_EVENTS:
            del self._events[next(iter(self._events))]
        same = next((each for each in known if (each.reason, each.message) == (seen.reason, seen.message)), None)
        if same is not None:
            known.remove(same)
        known.appendleft(seen)

    def add_usage(self, summary: Mapping[str, Any]) -> None:
        """Take a measurement of everything; a pod that is not in it has none at this time."""
        node = summary.get("node") or {}
        self._node.append(_sample(node))
        available = int((node.get("memory") or {}).get("availableBytes", 0))
        capacity = (self._node[-1].memory_bytes or 0) + available
        self.node = NodeUsage(visible(str(node.get("nodeName", ""))), capacity, tuple(self._node))
        measured = {_key_of(pod): pod for pod in summary.get("pods") or ()}
        self._containers = {
            key: {str(each["name"]): _sample(each) for each in pod.get("containers") or ()}
            for key, pod in measured.items()
        }
        for key in self._pods:
            sample = _pod_sample(measured[key]) if key in measured else Sample()
            self._samples.setdefault(key, deque(maxlen=SAMPLES)).append(sample)

    def _is_wanted(self, entry: PodEntry) -> bool:
        namespace, name = entry.key
        named = not self._name or name == self._name or name.startswith(f"{self._name}-")
        return named and self._namespace in ("", namespace)

    def _full(self, entry: PodEntry) -> PodEntry:
        return replace(
            entry,
            samples=tuple(self._samples.get(entry.key, ())),
            containers_now=self._containers.get(entry.key, {}),
            events=tuple(self._events.get(entry.key, ())),
        )


def _key_of(pod: Mapping[str, Any]) -> Key:
    return str(pod["podRef"]["namespace"]), str(pod["podRef"]["name"])


def _sample(usage: Mapping[str, Any]) -> Sample:
    cpu = (usage.get("cpu") or {}).get("usageNanoCores")
    memory = (usage.get("memory") or {}).get("workingSetBytes")
    return Sample(None if cpu is None else int(cpu), None if memory is None else int(memory))


def _pod_sample(pod: Mapping[str, Any]) -> Sample:
    """Return the usage of a pod; without a cgroup of its own, the sum of its containers."""
    whole = _sample(pod)
    parts = [_sample(each) for each in pod.get("containers") or ()]
    cpus = [each.cpu_nano_cores for each in parts if each.cpu_nano_cores is not None]
    sizes = [each.memory_bytes for each in parts if each.memory_bytes is not None]
    return Sample(
        whole.cpu_nano_cores if whole.cpu_nano_cores is not None else sum(cpus) if cpus else None,
        whole.memory_bytes if whole.memory_bytes is not None else sum(sizes) if sizes else None,
    )


def _order_of(event: Mapping[str, Any]) -> tuple[Seconds, int]:
    """Return what events are sorted by: times have whole seconds, so that many are equal."""
    version = str(event["metadata"].get("resourceVersion", ""))
    return _time_of(event), int(version) if version.isdecimal() else 0


def _message_of(event: Mapping[str, Any]) -> str:
    """The message, behind the name of the container that the event is about."""
    message = str(event.get("message", ""))
    container = container_of(event)
    return f"{container}: {message}" if container else message


def _time_of(event: Mapping[str, Any]) -> Seconds:
    moment = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return datetime.fromisoformat(str(moment)).timestamp() if moment else 0.0
