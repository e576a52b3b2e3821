"""CPU usage, computed from the CPU times of a reading and of the previous one, which is kept."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pykubelet.base.units import Seconds

_SHORTEST: Final[Seconds] = 0.2
"""Interval below which noise exceeds the measured value, so that the previous usage is returned again."""
LONGEST: Final[Seconds] = 60.0
"""Age from which a reading is too old for a current usage."""


class _Sample(Struct, frozen=True):
    at: Seconds
    cpu_ns: int
    nano_cores: int | None


class CpuRates:
    """CPU rates by the path of a cgroup or another name. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}

    def usage(self, name: str, at: Seconds, cpu_ns: int) -> int | None:
        """Record a reading; return the usage since the previous one in billionths of a core, None for the first."""
        before = self._samples.get(name)
        nano_cores = None
        if before is not None and at - before.at < _SHORTEST:
            return before.nano_cores
        if before is not None and at - before.at <= LONGEST and cpu_ns >= before.cpu_ns:
            nano_cores = round((cpu_ns - before.cpu_ns) / (at - before.at))
        self._samples[name] = _Sample(at, cpu_ns, nano_cores)
        return nano_cores

    def stale(self, names: Iterable[str], now: Seconds) -> list[str]:
        """Return the names for which a reading now would not give a usage."""
        return [name for name in names if (s := self._samples.get(name)) is None or now - s.at > LONGEST]

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget the readings of all other names."""
        kept = set(names)
        for name in self._samples.keys() - kept:
            del self._samples[name]
