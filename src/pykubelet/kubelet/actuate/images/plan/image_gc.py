"""Selects the images to remove when the disk fills up or they are unused for long. Pure. Rules of the Go kubelet.

At the high threshold and above, images are removed until usage is at the low threshold: the longest unused first, but
never pinned or very new images, nor images of existing containers, even exited ones.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.base.image_reference import InvalidReference, parse
from pykubelet.base.units import Bytes, Seconds

_ALGORITHM: Final = "sha256:"


class ImageGcPolicy(Struct, frozen=True):
    """Image garbage collection settings of KubeletConfiguration."""

    high_threshold: int = 85
    """Percent of the file system in use; 100 turns off removal for space."""
    low_threshold: int = 80
    minimum_age: Seconds = 120.0
    maximum_age: Seconds = 0.0
    """Seconds unused after which an image is removed; zero: never."""


class ImageRecord(Struct, frozen=True):
    """Record of one image. Times are monotonic seconds."""

    id: str
    size: Bytes
    pinned: bool
    first_seen: Seconds
    last_used: Seconds | None = None
    """Time at which a container used it last; None: never since the start of the agent."""

    @property
    def unused_since(self) -> Seconds:
        return self.first_seen if self.last_used is None else self.last_used


class ImageDiskUse(Struct, frozen=True):
    """Capacity and available bytes of the image file system."""

    capacity: Bytes
    available: Bytes

    @property
    def percent(self) -> int:
        """Percent of the file system in use."""
        return 100 - int(min(self.available, self.capacity) * 100 / self.capacity) if self.capacity else 0


def seen(
    known: Mapping[str, ImageRecord], images: Iterable[ImageRecord], used: Collection[str], now: Seconds
) -> dict[str, ImageRecord]:
    """Update the records; ``images`` are those of the runtime now, ``used`` the ids used by containers."""
    records = {}
    for image in images:
        before = known.get(image.id)
        first = before.first_seen if before else image.first_seen
        last = now if image.id in used else before.last_used if before else None
        records[image.id] = replace(image, first_seen=first, last_used=last)
    return records


def may_mean(reference: str, image_id: str, names: Collection[str]) -> bool:
    """Whether a reference that the runtime does not resolve to one image may mean this one: by its id or a name."""
    digits = reference.removeprefix(_ALGORITHM)
    if digits and image_id.removeprefix(_ALGORITHM).startswith(digits):
        return True
    try:
        return str(parse(reference)) in names
    except InvalidReference:
        return False


def removable(records: Mapping[str, ImageRecord], used: Collection[str]) -> list[ImageRecord]:
    """Images that may be removed, in the order of removal."""
    free = (record for record in records.values() if not record.pinned and record.id not in used)
    return sorted(free, key=lambda record: (record.last_used is not None, record.last_used or 0.0, record.first_seen))


def too_old(free: Iterable[ImageRecord], policy: ImageGcPolicy, started: Seconds, now: Seconds) -> list[ImageRecord]:
    """Images unused for longer than the maximum age; none until the agent itself has run for that long."""
    if not policy.maximum_age or now - started <= policy.maximum_age:
        return []
    return [record for record in free if now - record.unused_since > policy.maximum_age]


def bytes_to_free(disk: ImageDiskUse, policy: ImageGcPolicy) -> Bytes:
    """Bytes to free to reach the low threshold; zero below the high threshold."""
    if policy.high_threshold >= 100 or disk.percent < policy.high_threshold:
        return Bytes(0)
    return Bytes(max(0, disk.capacity * (100 - policy.low_threshold) // 100 - disk.available))


def for_space(free: Iterable[ImageRecord], need: Bytes, policy: ImageGcPolicy, now: Seconds) -> list[ImageRecord]:
    """Select as many images as needed to free ``need`` bytes."""
    chosen, freed = [], 0
    for record in free:
        if freed >= need:
            break
        if now - record.first_seen >= policy.minimum_age:
            chosen.append(record)
            freed += record.size
    return chosen


def unneeded(
    free: Iterable[ImageRecord], policy: ImageGcPolicy, first_round: Seconds, now: Seconds
) -> list[ImageRecord]:
    """Select all images but very new ones, which may have been pulled for a container that is not created yet.

    Images that were there in the first round are old enough, whenever the agent started: upstream keeps these, too, and
    evicts pods instead.
    """
    return [r for r in free if r.first_seen <= first_round or now - r.first_seen >= policy.minimum_age]


def too_little_freed(disk: ImageDiskUse, freed: Bytes) -> str:
    """Event text for the case that removing images was not enough."""
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
