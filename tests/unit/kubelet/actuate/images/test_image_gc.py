"""Selection of images to remove."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.units import Bytes
from pykubelet.kubelet.actuate.images.plan.image_gc import (
    ImageDiskUse,
    ImageGcPolicy,
    ImageRecord,
    bytes_to_free,
    for_space,
    removable,
    seen,
    too_little_freed,
    too_old,
)

NOW = 10_000.0
POLICY = ImageGcPolicy()


def image(
    name: str, *, first: float = 0.0, used: float | None = None, size: int = 10, pinned: bool = False
) -> ImageRecord:
    return ImageRecord(name, Bytes(size), pinned, first, used)


def disk(available: int) -> ImageDiskUse:
    return ImageDiskUse(Bytes(1000), Bytes(available))


@pytest.mark.parametrize(
    ("available", "need"), [(1000, 0), (200, 0), (160, 0), (151, 49), (150, 50), (100, 100), (0, 200), (2000, 0)]
)
def test_bytes_to_free_lead_to_the_low_threshold(available: int, need: int) -> None:
    assert bytes_to_free(disk(available), POLICY) == need


def test_a_threshold_of_a_hundred_turns_it_off() -> None:
    assert bytes_to_free(disk(0), ImageGcPolicy(high_threshold=100)) == 0


def test_times_are_remembered() -> None:
    first = seen({}, [image("a", first=1), image("b", first=1)], {"a"}, 1)
    assert (first["a"].last_used, first["b"].last_used) == (1, None)
    second = seen(first, [image("a", first=5), image("c", first=5)], set(), 5)
    assert {name: (r.first_seen, r.last_used) for name, r in second.items()} == {"a": (1, 1), "c": (5, None)}


def test_never_used_images_are_removed_first_then_the_longest_unused() -> None:
    records = {r.id: r for r in (image("new", used=9), image("old", used=2), image("b", first=4), image("a", first=3))}
    assert [r.id for r in removable(records, set())] == ["a", "b", "old", "new"]


def test_used_and_pinned_images_are_kept() -> None:
    records = {r.id: r for r in (image("used"), image("pinned", pinned=True), image("free"))}
    assert [r.id for r in removable(records, {"used"})] == ["free"]


def test_young_images_are_kept() -> None:
    free = [image("young", first=NOW - 119), image("grown", first=NOW - 120)]
    assert [r.id for r in for_space(free, Bytes(1), POLICY, NOW)] == ["grown"]


@given(st.lists(st.integers(1, 50), max_size=10), st.integers(1, 300))
def test_no_more_images_than_needed_are_removed(sizes: list[int], need: int) -> None:
    free = [image(str(i), size=size) for i, size in enumerate(sizes)]
    chosen = for_space(free, Bytes(need), POLICY, NOW)
    assert chosen == free[: len(chosen)]
    assert sum(r.size for r in chosen[:-1]) < need
    assert sum(r.size for r in chosen) >= min(need, sum(sizes))


@pytest.mark.parametrize(
    ("record", "started", "goes"),
    [
        (image("a", used=NOW - 101), 0, True),
        (image("a", used=NOW - 100), 0, False),
        (image("a", first=NOW - 101), 0, True),
        (image("a", used=0), NOW - 100, False),
    ],
)
def test_image_unused_for_the_maximum_age_is_too_old(record: ImageRecord, started: float, goes: bool) -> None:
    assert bool(too_old([record], ImageGcPolicy(maximum_age=100), started, NOW)) is goes
    assert too_old([record], POLICY, started, NOW) == []


def test_message_says_that_too_little_disk_was_freed() -> None:
    assert too_little_freed(ImageDiskUse(Bytes(3 << 30), Bytes(0)), Bytes(7)).startswith(
        "Insufficient free disk space on the node's image filesystem (100% of 3.0 GiB used). "
        "Failed to free sufficient space by deleting unused images (freed 7 bytes). "
    )
