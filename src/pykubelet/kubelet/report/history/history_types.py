"""Records of the history file, its limits, and what is read from it.

Nothing here holds content of Secrets, ConfigMaps or environment variables: events as `get events` shows them, durations
of steps, exit codes and times.
"""

from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from pykubelet.base.units import KIB, MIB, Bytes, Seconds
from pykubelet.kubelet.types.ids import PodUID
from pykubelet.kubelet.types.reports.container_ends import ContainerEnd
from pykubelet.kubelet.types.reports.timeline_views import TimelineView
from pykubelet.models.core_v1 import Event

VERSION = 1


class Header(Struct, frozen=True, tag="history"):
    """The first line of a file."""

    version: int


class EventRecord(Struct, frozen=True, tag="event"):
    """An event; a later record of the same key replaces it. ``at``: Unix time of its last occurrence."""

    key: str
    at: Seconds
    body: msgspec.Raw
    """The Event as JSON."""


class StartRecord(Struct, frozen=True, tag="pod"):
    """The Unix time at which a pod was started first, its ``status.startTime``."""

    uid: PodUID
    at: Seconds


class TimelineRecord(Struct, frozen=True, tag="timeline"):
    """The starts of a pod. ``at``: Unix time of the newest one's beginning."""

    uid: PodUID
    at: Seconds
    body: TimelineView


class EndRecord(Struct, frozen=True, tag="end"):
    """The end of a container."""

    uid: PodUID
    body: ContainerEnd


class GoneRecord(Struct, frozen=True, tag="gone"):
    """A pod was removed: its start, timeline and ends are forgotten; its events are kept."""

    uid: PodUID


Record: TypeAlias = Header | EventRecord | StartRecord | TimelineRecord | EndRecord | GoneRecord


class HistoryLimits(Struct, frozen=True):
    """Limits of what is kept."""

    keep_for: Seconds = 7 * 86400.0
    """Time after which events and ends of containers are forgotten; the rest is kept as long as its pod exists."""
    events: int = 10_000
    timelines: int = 100
    pods: int = 2048
    ends_of_pod: int = 20
    file: Bytes = Bytes(16 * MIB)
    """Size at which the file is rewritten without what has been replaced, and without older events if need be."""
    record: Bytes = Bytes(64 * KIB)
    """Longer records are not stored."""


class LoadedHistory(Struct, frozen=True, kw_only=True):
    """The content of a history file."""

    events: tuple[Event, ...] = ()
    """The newest ones, the oldest first."""
    more_events: bool = False
    """The file has older events, too."""
    started: dict[PodUID, Seconds] = field(default_factory=dict)
    timelines: dict[PodUID, TimelineView] = field(default_factory=dict)
    ends: dict[PodUID, tuple[ContainerEnd, ...]] = field(default_factory=dict)
    damage: str = ""
    """The reason why the file was set aside; empty: it was not."""
