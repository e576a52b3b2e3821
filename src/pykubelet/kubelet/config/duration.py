"""Go's duration notation (``1h30m``, ``250ms``), which KubeletConfiguration uses."""

import re

from pykubelet.base.errors import Invalid

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")


def parse_duration(text: str) -> float:
    """Parse a Go duration to seconds; ``0`` needs no unit. Raises Invalid with an example of the format."""
    body = text.removeprefix("-").removeprefix("+")
    if body == "0":
        return 0.0
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise Invalid(f"{text!r} is not a duration; write for example 20s, 1m30s or 250ms")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    return -seconds if text.startswith("-") else seconds
