"""Units as types, so that a signature says what a number means, and Go's notation of durations.

`Seconds` is an alias because plain literals are passed everywhere; `Bytes` and `MilliCPU` are distinct
types, since mixing them up is an expensive mistake.
"""

import re
from typing import Final, NewType, TypeAlias

from pykubelet.base.errors import Invalid

Seconds: TypeAlias = float
Bytes = NewType("Bytes", int)
MilliCPU = NewType("MilliCPU", int)

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

_DURATION_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST: Final = (2**63 - 1) / 1e9
_DURATION_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Parse a Go duration (``1h30m``, ``250ms``) to seconds; ``0`` needs no unit.

    Invalid: another format, the message has an example; or longer than Go's durations, which are 64 bits of ns.
    """
    body = text.removeprefix("-").removeprefix("+")
    if body == "0":
        return 0.0
    parts = _DURATION_PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise Invalid(f"{text!r} is not a duration; write for example 20s, 1m30s or 250ms")
    seconds = sum(float(number) * _DURATION_UNITS[unit] for number, unit in parts)
    if seconds > _LONGEST:
        raise Invalid("the duration is too long; write at most 2562047h")
    return -seconds if text.startswith("-") else seconds
