"""CPU usage from CPU time: needs two readings, so the one before is kept, and only that."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pykubelet.base.units import Seconds

_SHORTEST: Final[Seconds] = 0.2
"""Below this the noise is larger than what is measured: the former usage is given again."""
LONGEST: Final[Seconds] = 60.0
"""A reading as old as that says nothing about now."""


@dataclass(frozen=True, slots=True)
class _Sample:
    at: Seconds
    cpu_ns: int
    nano_cores: int | None


class CpuRates:
    """By the path of the cgroup, or any other name of what is measured. Times are monotonic."""

    def __init__(self) -> None:
        self._samples: dict[str, _Sample] = {}

    def usage(self, name: str, at: Seconds, cpu_ns: int) -> int | None:
        """Billionths of a core since the reading before; None for the first one. Notes this reading."""
        before = self._samples.get(name)
        nano_cores = None
        if before is not None and at - before.at < _SHORTEST:
            return before.nano_cores
        if before is not None and at - before.at <= LONGEST and cpu_ns >= before.cpu_ns:
            nano_cores = round((cpu_ns - before.cpu_ns) / (at - before.at))
        self._samples[name] = _Sample(at, cpu_ns, nano_cores)
        return nano_cores

    def stale(self, names: Iterable[str], now: Seconds) -> list[str]:
        """Those for which a reading now would not give a usage."""
        return [name for name in names if (s := self._samples.get(name)) is None or now - s.at > LONGEST]

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(names)
        for name in self._samples.keys() - kept:
            del self._samples[name]
