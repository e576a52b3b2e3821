"""Which images go when the disk fills up or they have not been used for long (pure). Rules of the reference.

How full: at the high threshold and above, enough is removed to come down to the low one. Which: never those that a
container uses, dead ones included, nor pinned ones, nor those that came a moment ago; the longest unused first.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from pykubelet.base.units import Bytes, Seconds


@dataclass(frozen=True, slots=True)
class GcPolicy:
    """Fields of KubeletConfiguration, by their names there."""

    high_threshold: int = 85
    """Percent of the file system in use; 100 turns removal for space off."""
    low_threshold: int = 80
    minimum_age: Seconds = 120.0
    maximum_age: Seconds = 0.0
    """Zero: age is no reason."""


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """What is known of one image. Times are monotonic seconds."""

    id: str
    size: Bytes
    pinned: bool
    first_seen: Seconds
    last_used: Seconds | None = None
    """When a container had it last; None: never since the agent was started."""

    @property
    def unused_since(self) -> Seconds:
        return self.first_seen if self.last_used is None else self.last_used


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The file system that images are on."""

    capacity: Bytes
    available: Bytes

    @property
    def percent(self) -> int:
        """How much of it is in use."""
        return 100 - int(min(self.available, self.capacity) * 100 / self.capacity) if self.capacity else 0


def seen(
    known: Mapping[str, ImageRecord], images: Iterable[ImageRecord], used: Collection[str], now: Seconds
) -> dict[str, ImageRecord]:
    """The records after a look at the runtime; ``images`` are as seen now, ``used`` the ids that containers have."""
    records = {}
    for image in images:
        before = known.get(image.id)
        first = before.first_seen if before else image.first_seen
        last = now if image.id in used else before.last_used if before else None
        records[image.id] = replace(image, first_seen=first, last_used=last)
    return records


def removable(records: Mapping[str, ImageRecord], used: Collection[str]) -> list[ImageRecord]:
    """Images that may go at all, in the order in which they go."""
    free = (record for record in records.values() if not record.pinned and record.id not in used)
    return sorted(free, key=lambda record: (record.last_used is not None, record.last_used or 0.0, record.first_seen))


def too_old(free: Iterable[ImageRecord], policy: GcPolicy, started: Seconds, now: Seconds) -> list[ImageRecord]:
    """Those unused for longer than the maximum age. None until the agent has been running for as long itself."""
    if not policy.maximum_age or now - started <= policy.maximum_age:
        return []
    return [record for record in free if now - record.unused_since > policy.maximum_age]


def bytes_to_free(disk: DiskUse, policy: GcPolicy) -> Bytes:
    """How much has to go; zero below the high threshold."""
    if policy.high_threshold >= 100 or disk.percent < policy.high_threshold:
        return Bytes(0)
    return Bytes(max(0, disk.capacity * (100 - policy.low_threshold) // 100 - disk.available))


def for_space(free: Iterable[ImageRecord], need: Bytes, policy: GcPolicy, now: Seconds) -> list[ImageRecord]:
    """As many of them as are needed for that much space."""
    chosen, freed = [], 0
    for record in free:
        if freed >= need:
            break
        if now - record.first_seen >= policy.minimum_age:
            chosen.append(record)
            freed += record.size
    return chosen


def too_little_freed(disk: DiskUse, freed: Bytes) -> str:
    """The event's text when removing images was not enough."""
    use = f"{disk.percent}% of {_size(disk.capacity)} used"
    return (
        f"Insufficient free disk space on the node's image filesystem ({use}). "
        f"Failed to free sufficient space by deleting unused images (freed {freed} bytes). "
        "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
    )


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
