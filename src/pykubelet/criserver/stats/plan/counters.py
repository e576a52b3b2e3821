"""Arithmetic of CPU rates. Pure."""

from msgspec import Struct


class Sample(Struct, frozen=True):
    """The CPU time used up to a point in time, both in nanoseconds."""

    at: int
    used: int


def rate(before: Sample | None, now: Sample) -> int | None:
    """Nanoseconds of CPU time used per second between two samples; None if it cannot be computed."""
    if before is None or now.at <= before.at or now.used < before.used:
        return None
    return (now.used - before.used) * 1_000_000_000 // (now.at - before.at)
